"""GuideLLM takes all its times by the wall clock, which may be set while a load runs.

Imported before GuideLLM, in every process of it, this gives it the monotonic clock instead, which
is one for all processes of a host and that of the telemetry, too.
"""

import time

time.time = time.monotonic
