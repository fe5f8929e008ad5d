"""Why a server is as fast as it is: rooflines, speculation and findings, from tables alone."""
