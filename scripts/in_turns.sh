# in_turns.sh - two processes of `pith bench --in-turns --paced` measured in turns, so that the machine's moods hit both alike: what
# scripts/measure_ab and measure_rpc share. Sourced; ours=(…) and theirs=(…) are the words that start them, pairs how often both run.
# A process reads a prompt to every depth once, and then decodes 32 tokens behind each of them whenever it is its turn; prompts of 512
# tokens are read anew. Where kept=FOLDER is set, what a launch measured stays there, and is not measured again.
work=$(mktemp -d)
kept=${kept:-$work/kept}
mkdir -p "$kept"
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# begin WHO WORD…: starts a process and waits until it has read its prompts.
declare -A to from
started=()
begin() {
  local who=$1 fd line
  shift
  mkfifo "$work/$who.in" "$work/$who.out"
  "$@" <"$work/$who.in" >"$work/$who.out" 2>"$work/$who.err" &
  started+=($!) # others of the script's may go on
  exec {fd}>"$work/$who.in"
  to[$who]=$fd
  exec {fd}<"$work/$who.out"
  from[$who]=$fd
  rm "$work/$who.in" "$work/$who.out"
  read -r line <&"${from[$who]}" || { cat "$work/$who.err" >&2; exit 1; }
}
# pace LAUNCHES NAME OPTIONS…: both with the same options; writes NAME, case, who, round and seconds to a file of each launch, parted by tabs.
# Pairs of one launch may share its luck (where its pages lie, which came first): so they are divided among launches, and which
# starts first takes turns as well.
pace() {
  local launches=$1 name=$2 line who order launch rows round=0 last
  shift 2
  for launch in $(seq 1 "$launches"); do
    last=$((pairs * launch / launches))
    rows=$kept/$name-$(cksum <<<"$*" | cut -d ' ' -f 1)-$launch
    [ ! -f "$rows" ] || { round=$last && continue; }
    : >"$work/rows"
    order="ours theirs"
    [ $((launch % 2)) = 1 ] || order="theirs ours"
    for who in $order; do
      local -n words=$who
      begin "$who" "${words[@]}" "$@"
    done
    while [ "$round" -lt "$last" ]; do
      round=$((round + 1))
      order="ours theirs"
      [ $((round % 2)) = 1 ] || order="theirs ours"
      for who in $order; do
        echo go >&"${to[$who]}"
        while read -r line <&"${from[$who]}" && [ "$line" != "done" ]; do
          printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$(cut -f2 <<<"$line")" "$who" "$round" "$(cut -f3 <<<"$line")" >>"$work/rows"
        done
      done
      [ -t 2 ] && printf '\r%s: pair %d of %d    ' "$name" "$round" "$pairs" >&2
    done
    stop
    mv "$work/rows" "$rows"
  done
}
stop() {
  local who fd
  for who in ours theirs; do
    fd=${to[$who]}
    exec {fd}>&-
    fd=${from[$who]}
    exec {fd}<&-
  done
  wait "${started[@]}" || true
  started=()
}
in_turns_model() { # in_turns_model PROGRAM TYPE: a random 1 B model
  local file=out/random-1b-$2.gguf
  [ -f "$file" ] || "$1" make-model 1b --type "$2" -o "$file" >&2
  echo "$file"
}

# A row each: the medians of ours and theirs, their ratio (theirs' time over ours') and the interval of the pairs' ratios, which is
# that of the median by order statistics: of ten pairs the second least to the second largest, 97.9 %.
# in_turns_table OURS THEIRS LEAST TIES FAILED: the columns' names; a row holds where the ratio is at least LEAST, or, with TIES yes,
# where the interval includes 1; what is said where it does not. Returns 1 where one does not.
in_turns_table() {
  sort -t "$(printf '\t')" -k1,1 -k2,2 -k4,4n -k3,3 "$kept"/* | awk -F '\t' -v ours="$1" -v theirs="$2" -v least="$3" -v ties="$4" -v says="$5" '
  function sorted(from, to, n,   i, j, x) {
    for (i = 1; i <= n; ++i) to[i] = from[i]
    for (i = 2; i <= n; ++i) { x = to[i]; for (j = i - 1; j >= 1 && to[j] > x; --j) to[j + 1] = to[j]; to[j + 1] = x }
  }
  function median(from, n,   s) { sorted(from, s, n); return n % 2 ? s[(n + 1) / 2] : (s[n / 2] + s[n / 2 + 1]) / 2 }
  function finish(   i, s, low, high, m, holds) {
    if (n == 0) return
    for (i = 1; i <= n; ++i) r[i] = b[i] / a[i]
    sorted(r, s, n)
    low = s[n >= 4 ? 2 : 1]; high = s[n >= 4 ? n - 1 : n]
    m = median(b, n) / median(a, n)
    holds = m >= least || (ties == "yes" && low <= 1 && high >= 1)
    printf "%-6s %-32s %10.3f %10.3f  %.3f  [%.3f, %.3f]  %s\n", type, what, 1000 * median(a, n), 1000 * median(b, n), m, low, high, holds ? "holds" : says
    if (!holds) failed = 1
  }
  BEGIN { printf "%-6s %-32s %10s %10s  ratio of medians, interval of the pairs\n", "model", "ms/token", ours, theirs }
  { key = $1 "\t" $2
    if (key != last) { finish(); n = 0; last = key; type = $1; what = $2 }
    if ($3 == "ours") a[++n] = $5; else b[n] = $5 }
  END { finish(); exit failed }'
}
