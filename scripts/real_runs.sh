# real_runs.sh - runs of `pith eval` on real trained models that go on where they were stopped: what scripts/measure_real and
# measure_later share. Sourced in the repository's root. $out is the runs' folder, $small and $large are the models, $texts holds
# the texts, and $few, $papers, $pooled are the policies of the board.
#   JOBS="--jobs 2 -t 1": how a run uses the machine (`pith eval --help`); --jobs 1 where memory is short
scripts/build pith pith-lab >&2
pith=${PITH:-build/apps/pith/pith}
out=${out:-out/real}
mkdir -p "$out"
small=$(scripts/fetch_models --as q8_0 smollm2-135m)
large=$(scripts/fetch_models qwen2.5-coder-1.5b)
texts=$(scripts/real_texts)
# shellcheck disable=SC2206  # options, word by word
jobs=(${JOBS:---jobs 2 -t 1} --parallel 24)

# Pooled as wide as values are long in tokens, over what is before.
wide=pool=avg45:pool_over=before
few=auto,random,streaming,snapkv,snapkv:pool=avg45+preference,snapkv:$wide+caote,vmax:$wide+entropy,matprod:$wide+global,keydiff+preference,keydiff+ada:alpha=0,expected:eps=0.02+ada
# As their papers have them, and once more pooled.
papers=window,knorm,keydiff,expected,h2o,tova,pyramidkv,adakv,cake,lava,criticalkv,critical-adakv,snapkv+caote,score,laprox,duo,headkv
pooled=snapkv:pool=avg45,snapkv:$wide,snapkv:$wide+ada,snapkv:$wide+ada+critical,attnvar:$wide+preference,snapkv:$wide+novelty+diverse,headkv:pool=avg45,headkv:$wide,keydiff+entropy,keydiff+head:by=copy,expected:eps=0.02+head:by=both

run() { # run NAME WAY OPTIONS…: WAY is known (the question in sight when the policy evicts) or later
  local options=()
  [ "$2" = later ] || options=(--question-aware)
  echo "${0##*/}: $1-$2" >&2
  "$pith" eval "${@:3}" "${options[@]}" "${jobs[@]}" -o "$out/$1-$2" >"$out/$1-$2.txt"
}
ruler() { # ruler NAME WAY MODEL CONTEXT SAMPLES POLICIES BUDGETS SEED OPTIONS…
  run "$1" "$2" ruler -m "$3" --context "$4" --haystack "$texts/haystack.txt" --samples "$5" --policy "$6" --budget "$7" --seed "$8" "${@:9}"
}
importance() { # importance NAME: what the model has learnt (small, large), in $out; once
  local file=$out/$1.importance.gguf
  [ -f "$file" ] || "$pith" calibrate importance -m "${!1}" -o "$file" >"$out/$1.importance.txt"
}
