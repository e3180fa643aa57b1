# The page on a GPU server, with the same entry point as `make app` and a Space:
#   docker build -t pcg-lab .
#   docker run --gpus all -p 7860:7860 -e MODEL=llasa-1b -v pcg-cache:/home/lab/app/cache -v pcg-hub:/home/lab/hub pcg-lab
# On a CPU, with the embedded voice:
#   docker build --build-arg BASE=ubuntu:24.04 --build-arg TORCH=cpu -t pcg-lab-cpu .
#   docker run -p 7860:7860 -e DEVICE=cpu pcg-lab-cpu
ARG BASE=nvidia/cuda:13.0.1-runtime-ubuntu24.04
FROM ${BASE}

# Which of PyTorch's wheels: cu130 as the base, or cpu.
ARG TORCH=cu130
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ffmpeg python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home lab && mkdir -p /home/lab/app/cache /home/lab/app/runs /home/lab/hub && chown -R lab /home/lab
USER lab
WORKDIR /home/lab/app

# Before the code, so that another line of code is no other gigabyte of packages.
COPY --chown=lab requirements.txt requirements-nodeps.txt ./
ENV VIRTUAL_ENV=/home/lab/venv PATH=/home/lab/venv/bin:$PATH
RUN python3 -m venv "$VIRTUAL_ENV" \
    && pip install --no-cache-dir --extra-index-url "https://download.pytorch.org/whl/${TORCH}" torch==2.13.0+${TORCH} \
        -r requirements.txt \
    && pip install --no-cache-dir --no-deps -r requirements-nodeps.txt

COPY --chown=lab LICENSE NOTICE README.md CONTRIBUTING.md CHANGELOG.md app.py pyproject.toml ./
COPY --chown=lab docs docs
COPY --chown=lab pcg ./pcg
COPY --chown=lab explorers ./explorers
COPY --chown=lab assets ./assets

ENV MODEL=embedded DRAFT=auto DEVICE=cuda HF_HOME=/home/lab/hub PYTHONUNBUFFERED=1
VOLUME ["/home/lab/app/cache", "/home/lab/hub"]
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=20m \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:7860/theme.css', timeout=8)"]
CMD ["python", "app.py", "--host", "0.0.0.0", "--port", "7860"]
