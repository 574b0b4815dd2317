# usage.sh - for scripts, sourced before anything else: `SCRIPT --help` prints the comment that SCRIPT begins with, and ends.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
