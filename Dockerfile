# `pith serve` in a container: built on Debian 12, then the program, its libraries and its built-in model alone.
#   docker build -t pith .          (or podman build --format docker: OCI's format has no HEALTHCHECK)
# docs/deploy.md says how to run it.
FROM debian:12-slim AS build
# hadolint ignore=DL3008  # whatever Debian 12 has: its versions change with security fixes alone
RUN apt-get update && apt-get install -y --no-install-recommends g++
WORKDIR /src
COPY . .
# The lists of packages stay: scripts/setup reads which mirror there is.
RUN scripts/build pith_to_install && \
    PATH="$PWD/.deps/bin:$PATH" cmake --install build --prefix /opt/pith --strip
WORKDIR /opt/pith
RUN rm -r include lib/cmake lib/pkgconfig lib/libpith* share/pith/python share/man share/*-completion share/zsh share/fish && \
    rm bin/pith-lab lib/pith/pith-lab lib/pith/runtime/pith-lab

FROM debian:12-slim
COPY --from=build /opt/pith /opt/pith
RUN ln -s /opt/pith/bin/pith /usr/local/bin/pith && useradd --system --uid 10001 --no-create-home pith
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '\"ok\"' <&3"]
ENTRYPOINT ["pith", "serve", "--host", "0.0.0.0"]
