"""GuideLLM's client, in an environment without GuideLLM."""

import subprocess
import sys


def test_guidellm_is_imported_once_its_settings_stand_in_the_environment() -> None:
    code = "import sys; sys.modules['guidellm'] = None; import servetune.load.guidellm.client"
    subprocess.run([sys.executable, "-c", code], check=True)
