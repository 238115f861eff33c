# Only installs a wheel that `make wheel` made: docker build -f docker/install.Dockerfile -t tenon .
FROM python:3.11-slim
COPY dist/tenon-*-cp311-*.whl /tmp/
RUN pip install --no-cache-dir /tmp/tenon-*.whl "torch==2.13.*" && rm /tmp/tenon-*.whl
CMD ["python", "-m", "tenon", "doctor"]
