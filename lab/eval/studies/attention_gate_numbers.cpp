// attention_gate_numbers.cpp - Attention-Gate's own numbers; paper_tables.h has the form. Stage: eval.
// Tables 1 to 5. As printed: the mean of Table 1's evicted shares is not that of its row.
#include "eval/studies/papers.h"

namespace pith {

std::string_view attention_gate_numbers() {
    return R"(
= Table 1; accuracy; Llama-2-7B; piqa arc_challenge arc_easy rte copa boolq hellaswag average
full;; 76.33 37.29 51.32 51.99 62.00 69.94 68.16 59.58
window; 50%; 69.97 31.86 48.68 51.99 60.00 57.86 37.08 51.06
streaming; 50%; 72.69 33.22 51.15 50.18 63.00 62.05 40.85 53.31
h2o:recent=half; 50%; 75.9 33.22 52.03 52.71 47.00 67.37 66.32 56.36
gated;; 76.17 33.90 49.03 52.35 63.00 67.52 66.33 58.33
= Table 1; accuracy; Llama-2-7B; piqa arc_challenge arc_easy rte copa boolq hellaswag average; evicted
gated;; 54.29 51.03 51.05 46.70 40.02 57.75 52.16 51.87
= Table 2; fine-tuned; Llama-2-7B; piqa arc_challenge rte copa boolq openbookqa average
full;; 82.92 60.34 64.98 92.00 88.10 78.80 77.86
gated (alpha 1);; 82.15 59.66 64.26 93.00 86.82 78.80 77.45
gated (alpha 0.5);; 81.50 57.63 74.01 95.00 87.00 79.20 79.06
= Table 2; fine-tuned; Llama-2-7B; piqa arc_challenge rte copa boolq openbookqa average; evicted
gated (alpha 1);; 66.16 48.31 65.47 45.40 67.46 67.17 60.00
gated (alpha 0.5);; 64.96 36.45 62.80 34.77 67.31 66.65 55.49
= Table 3; fine-tuned; Llama-2-7B; piqa arc_challenge rte copa boolq openbookqa average
gated (1);; 82.15 59.66 64.26 93.00 86.82 78.80 77.45
gated (2-1);; 81.88 57.63 65.70 91.00 87.52 77.40 76.86
gated (2-2);; 82.15 53.90 62.45 89.00 87.31 77.40 75.37
gated (3-1);; 81.45 53.36 58.84 88.00 86.73 78.40 74.46
gated (3-2);; 83.03 53.90 59.93 89.00 87.16 76.40 74.90
gated (4-1);; 81.66 55.25 66.06 88.00 86.85 78.00 75.97
gated (4-2);; 82.75 55.93 79.06 82.00 86.33 78.40 77.41
gated (5);; 82.54 54.58 57.40 81.00 87.71 74.80 73.01
= Table 3; fine-tuned; Llama-2-7B; piqa arc_challenge rte copa boolq openbookqa average; evicted
gated (1);; 66.16 48.31 65.47 45.40 67.46 67.17 60.00
gated (2-1);; 63.92 36.38 62.73 24.38 65.22 63.57 52.70
gated (2-2);; 58.97 31.47 59.77 20.32 63.02 59.17 48.79
gated (3-1);; 61.75 33.55 61.34 19.24 64.59 59.59 50.01
gated (3-2);; 58.68 24.23 32.23 12.28 59.40 55.54 40.39
gated (4-1);; 49.52 36.92 46.85 28.74 56.02 60.32 46.40
gated (4-2);; 53.31 44.38 51.20 47.95 61.98 61.73 53.43
gated (5);; 1.06 0.46 0.81 0.26 1.38 1.16 0.86
= Table 4; accuracy; Mistral-7B; piqa arc_challenge arc_easy rte copa boolq hellaswag average
full;; 80.09 42.37 63.14 48.01 76 64.22 73.02 63.84
gated;; 75.9 34.24 55.2 48.01 65 62.2 67.91 58.35
= Table 4; accuracy; Mistral-7B; piqa arc_challenge arc_easy rte copa boolq hellaswag average; evicted
gated;; 37.14 39.48 37.80 40.93 45.27 44.68 50.92 42.32
= Table 5; fine-tuned; Llama-2-7B; piqa arc_challenge rte copa boolq openbookqa average
gated (1);; 82.15 59.66 64.26 93.00 86.82 78.80 77.45
gated (6-1);; 83.08 50.85 65.34 82.00 87.31 73.20 73.63
gated (6-2);; 81.61 53.56 60.29 82.00 87.37 74.20 73.17
= Table 5; fine-tuned; Llama-2-7B; piqa arc_challenge rte copa boolq openbookqa average; evicted
gated (1);; 66.16 48.31 65.47 45.40 67.46 67.17 60.00
gated (6-1);; 65.15 40.96 64.29 21.37 67.49 63.69 53.83
gated (6-2);; 65.66 44.48 65.14 24.28 68.18 63.44 55.20
)";
}

}  // namespace pith
