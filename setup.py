"""Put conf/ into the wheel; an editable installation reads it from the checkout."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithConf(build_py):
    """Builds the package with conf/ in it."""

    def run(self) -> None:
        """Copy the modules, then the configuration."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "sts_lightning" / "conf"
            shutil.rmtree(target, ignore_errors=True)  # of an earlier build
            shutil.copytree("conf", target)


setup(cmdclass={"build_py": BuildWithConf})
