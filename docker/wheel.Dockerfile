# Builds the wheels: docker build -f docker/wheel.Dockerfile --output dist .
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git make python3 python3-dev python3-venv
WORKDIR /tenon
COPY . .
RUN make deps && make wheel

FROM scratch
COPY --from=build /tenon/dist/*.whl /
