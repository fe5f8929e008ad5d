"""What a workload costs beside another: the requests that both have, launch by launch."""
