"""What pyproject.toml cannot say: `assets`, which lies beside the package, is installed within it."""

from setuptools import find_packages, setup

SHIPPED = ("voice", "recogniser", "detectors", "evaluation", "traces")

setup(
    packages=[*find_packages(include=["pcg", "pcg.*"]), "pcg.assets"],
    package_dir={"pcg.assets": "assets"},
    package_data={"pcg.assets": [f"{name}/**/*" for name in SHIPPED], "pcg.training": ["*.md"], "pcg.serving.hub": ["*.md"]},
    include_package_data=False,
)
