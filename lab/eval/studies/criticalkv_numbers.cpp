// criticalkv_numbers.cpp - CriticalKV's own numbers; paper_tables.h has the form. Stage: eval.
// Tables 1 to 9. Left out, since they cannot be read for sure: two cells of Table 1 (critical-adakv, Llama) and the end of
// Table 9's first row.
#include "eval/studies/papers.h"

namespace pith {

std::string_view criticalkv_numbers() {
    return R"(
= Table 1; ruler; Llama-3.1-8B-Instruct; @ruler average
full;; 44.90 95.33 100.00 100.00 100.00 98.25 99.75 100.00 100.00 100.00 84.00 62.00 99.40 91.05
snapkv; 40%; 20.30 90.00 93.00 36.00 31.00 92.75 87.50 100.00 97.00 46.00 41.00 52.00 96.60 67.93
criticalkv; 40%; 33.90 92.67 100.00 50.00 32.00 99.00 99.00 100.00 100.00 80.00 63.00 53.00 97.00 76.89
adakv; 40%; 26.60 92.00 98.00 66.00 71.00 97.50 98.25 99.00 100.00 75.00 43.00 54.00 98.60 78.38
critical-adakv; 40%; 52.40 94.67 100.00 93.00 65.00 99.25 98.75 100.00 - - 64.00 58.00 99.60 86.28
headkv:window=8; 40%; 17.10 92.67 99.00 66.00 75.00 97.00 93.00 100.00 98.00 94.00 56.00 54.00 98.00 79.98
critical-headkv:window=8; 40%; 56.50 93.33 100.00 93.00 90.00 99.50 99.00 100.00 100.00 99.00 72.00 59.00 99.40 89.29
= Table 1; ruler; Mistral-7B-Instruct-v0.3; @ruler average
full;; 30.00 95.67 94.00 69.00 31.00 94.25 95.00 99.00 100.00 100.00 60.00 59.00 90.60 78.27
snapkv; 40%; 32.20 91.67 16.00 11.00 4.00 11.25 8.00 65.00 17.00 2.00 34.00 51.00 74.80 32.15
criticalkv; 40%; 48.50 94.67 31.00 7.00 5.00 26.00 24.25 74.00 48.00 2.00 45.00 53.00 81.80 41.56
adakv; 40%; 25.30 92.33 25.00 14.00 8.00 20.00 14.25 44.00 34.00 6.00 44.00 55.00 71.60 34.88
critical-adakv; 40%; 40.50 95.33 89.00 27.00 8.00 85.00 95.00 99.00 100.00 54.00 60.00 57.00 89.40 69.17
headkv:window=8; 40%; 30.60 92.67 24.00 27.00 17.00 16.25 16.50 70.00 36.00 4.00 45.00 53.00 82.60 39.59
critical-headkv:window=8; 40%; 49.50 95.00 53.00 31.00 17.00 60.50 62.25 84.00 82.00 25.00 53.00 55.00 81.40 57.59
= Table 1; ruler; Qwen2.5-32B; @ruler average
full;; 90.60 96.00 99.00 90.00 90.00 100.00 99.25 100.00 100.00 100.00 82.00 74.00 100.00 93.91
snapkv; 40%; 87.90 92.00 63.00 23.00 9.00 71.75 61.75 100.00 94.00 14.00 50.00 64.00 99.80 63.86
criticalkv; 40%; 88.60 93.33 98.00 35.00 16.00 99.75 99.50 100.00 100.00 88.00 67.00 69.00 100.00 81.09
adakv; 40%; 88.90 93.33 81.00 34.00 21.00 87.50 83.50 100.00 97.00 19.00 55.00 64.00 100.00 71.09
critical-adakv; 40%; 89.50 94.33 98.00 54.00 34.00 100.00 99.50 100.00 100.00 91.00 64.00 66.00 100.00 83.87
headkv:window=8; 40%; 89.30 94.67 92.00 46.00 45.00 97.25 96.25 100.00 100.00 59.00 68.00 66.00 100.00 81.04
critical-headkv:window=8; 40%; 89.90 95.33 99.00 85.00 71.00 100.00 98.75 100.00 100.00 99.00 72.00 69.00 100.00 90.69
= Table 2; longbench; Llama-3.1-8B-Instruct; @domains average
full;; 43.10 46.49 28.97 69.45 53.73 57.86 49.20
snapkv; 20%; 28.78 33.51 23.82 61.95 48.19 60.05 41.29
criticalkv; 20%; 30.43 35.87 24.64 63.04 52.16 60.75 42.99
snapkv; 40%; 35.27 40.50 26.11 65.10 53.17 60.49 45.52
criticalkv; 40%; 38.27 43.17 27.15 66.87 54.22 60.91 47.29
adakv; 20%; 31.39 34.90 24.29 63.70 50.39 61.14 42.87
critical-adakv; 20%; 32.74 35.31 24.98 64.74 52.30 61.16 43.77
adakv; 40%; 36.63 41.36 26.66 66.43 53.00 60.30 46.24
critical-adakv; 40%; 39.24 45.11 27.31 68.19 53.60 60.60 48.00
headkv:window=8; 20%; 31.53 34.97 24.49 62.79 49.32 61.14 42.64
critical-headkv:window=8; 20%; 33.60 36.33 25.28 65.41 52.18 58.85 43.99
headkv:window=8; 40%; 39.96 43.10 27.06 65.64 52.89 61.34 47.23
critical-headkv:window=8; 40%; 40.61 44.33 27.24 68.06 54.04 57.89 47.79
= Table 2; longbench; Mistral-7B-Instruct-v0.3; @domains average
full;; 38.37 39.40 28.76 70.33 52.50 61.25 47.38
snapkv; 20%; 25.13 29.64 24.18 63.89 45.25 61.40 40.11
criticalkv; 20%; 28.24 32.07 24.61 65.54 46.53 61.94 41.77
snapkv; 40%; 31.64 33.57 26.24 67.95 49.75 63.41 44.03
criticalkv; 40%; 34.33 36.61 26.94 68.57 51.05 62.06 45.35
adakv; 20%; 27.25 31.71 24.18 66.00 48.00 62.55 41.78
critical-adakv; 20%; 29.06 33.04 24.83 67.08 49.25 62.56 42.85
adakv; 40%; 33.42 35.97 26.24 68.67 50.75 63.35 45.07
critical-adakv; 40%; 36.06 38.00 27.06 69.79 50.84 62.68 46.23
headkv:window=8; 20%; 27.94 31.58 24.49 64.73 47.79 61.96 41.61
critical-headkv:window=8; 20%; 30.95 34.47 25.63 67.58 48.02 61.76 43.46
headkv:window=8; 40%; 33.90 35.28 26.76 67.46 50.50 63.16 44.84
critical-headkv:window=8; 40%; 36.21 37.66 27.72 69.78 50.20 61.56 46.10
= Table 2; longbench; Qwen2.5-32B; @domains average
full;; 43.23 54.03 27.40 68.97 56.25 41.93 48.58
snapkv; 20%; 26.65 42.00 23.22 65.43 44.21 45.04 40.65
criticalkv; 20%; 28.12 46.88 24.23 66.86 53.00 44.72 43.36
snapkv; 40%; 32.22 50.90 25.19 67.43 55.25 44.89 45.47
criticalkv; 40%; 37.18 54.55 26.03 67.80 55.75 43.75 47.23
adakv; 20%; 26.62 42.36 23.21 66.56 46.63 46.30 41.38
critical-adakv; 20%; 29.00 47.40 24.06 67.44 52.75 45.43 43.75
adakv; 40%; 32.37 52.75 24.95 68.18 54.63 46.21 46.03
critical-adakv; 40%; 35.70 53.75 25.97 68.65 55.25 44.88 47.03
headkv:window=8; 20%; 29.9 46.35 23.88 65.96 50.88 44.83 43.11
critical-headkv:window=8; 20%; 32.07 50.60 24.34 68.53 53.88 46.27 45.43
headkv:window=8; 40%; 38.74 55.13 26.10 68.37 55.09 44.88 47.81
critical-headkv:window=8; 40%; 40.49 55.33 26.36 69.27 55.04 46.54 48.59
= Table 3; scbench; Llama-3.1-8B-Instruct; scbench_kv scbench_mf scbench_qa_eng
full;; 52.20 11.67 22.86
adakv; 80%; 52.00 11.33 22.14
critical-adakv; 80%; 52.60 13.67 24.29
adakv; 60%; 41.20 11.67 17.86
critical-adakv; 60%; 42.00 14.17 21.43
adakv; 40%; 19.40 11.50 15.71
critical-adakv; 40%; 19.80 16.83 22.14
= Table 4; alpha; Llama-3.1-8B-Instruct; multi-doc single-doc summarization few-shot synthetic code average
adakv; 20%; 34.03 29.54 23.74 63.56 43.90 60.94 41.39
snapkv+ada+critical:alpha=0; 20%; 38.14 33.56 25.14 64.25 51.73 61.41 44.35
snapkv+ada+critical:alpha=0.3; 20%; 36.73 33.80 24.94 63.29 50.21 61.03 43.67
snapkv+ada+critical:alpha=0.5; 20%; 35.31 32.74 24.98 64.74 52.30 61.16 43.77
snapkv+ada+critical:alpha=0.7; 20%; 36.95 32.20 24.70 63.36 49.14 61.38 43.29
= Table 4; alpha; Mistral-7B-Instruct-v0.3; multi-doc single-doc summarization few-shot synthetic code average
adakv; 20%; 31.30 27.15 23.81 65.05 46.25 62.27 41.18
snapkv+ada+critical:alpha=0; 20%; 26.12 22.49 23.42 39.44 31.29 56.97 31.94
snapkv+ada+critical:alpha=0.3; 20%; 31.69 30.69 24.87 67.30 46.84 61.67 42.54
snapkv+ada+critical:alpha=0.5; 20%; 33.04 29.06 24.83 67.08 49.25 62.56 42.85
snapkv+ada+critical:alpha=0.7; 20%; 32.60 30.11 24.78 66.90 49.00 61.82 42.80
= Table 5; alpha; Llama-3.1-8B-Instruct; average
adakv; 20%; 42.87
snapkv+ada+critical:alpha=0; 20%; 44.35
snapkv+ada+critical:alpha=0.3; 20%; 43.67
snapkv+ada+critical:alpha=0.4; 20%; 43.86
snapkv+ada+critical:alpha=0.5; 20%; 43.88
snapkv+ada+critical:alpha=0.6; 20%; 43.31
snapkv+ada+critical:alpha=0.7; 20%; 43.29
= Table 5; alpha; Mistral-7B-Instruct-v0.3; average
adakv; 20%; 41.78
snapkv+ada+critical:alpha=0; 20%; 31.94
snapkv+ada+critical:alpha=0.3; 20%; 42.54
snapkv+ada+critical:alpha=0.4; 20%; 42.76
snapkv+ada+critical:alpha=0.5; 20%; 42.88
snapkv+ada+critical:alpha=0.6; 20%; 42.98
snapkv+ada+critical:alpha=0.7; 20%; 42.80
= Table 6; baselines; Llama-3.1-8B-Instruct; average
pyramidkv; 20%; 40.22
pyramidkv; 40%; 44.20
duo; 20%; 39.52
duo; 40%; 48.17
critical-adakv; 20%; 43.77
critical-adakv; 40%; 48.00
critical-headkv:window=8; 20%; 43.99
critical-headkv:window=8; 40%; 47.79
= Table 6; baselines; Mistral-7B-Instruct-v0.3; average
pyramidkv; 20%; 39.77
pyramidkv; 40%; 43.30
duo; 20%; 31.13
duo; 40%; 43.74
critical-adakv; 20%; 42.85
critical-adakv; 40%; 46.23
critical-headkv:window=8; 20%; 43.46
critical-headkv:window=8; 40%; 46.10
= Table 7; small-budget; Llama-3.1-8B-Instruct; multi-doc single-doc summarization few-shot synthetic code average
adakv; 10%; 26.44 24.75 21.75 60.74 27.91 60.69 36.14
snapkv+ada+critical:alpha=0; 10%; 29.95 26.80 22.74 61.07 37.19 60.56 38.57
snapkv+ada+critical:alpha=0.3; 10%; 29.88 26.71 22.67 61.39 35.95 60.46 38.43
snapkv+ada+critical:alpha=0.5; 10%; 30.21 27.05 22.80 61.35 35.44 60.44 38.50
snapkv+ada+critical:alpha=0.7; 10%; 29.31 26.83 22.54 61.17 31.79 60.48 37.75
= Table 7; small-budget; Mistral-7B-Instruct-v0.3; multi-doc single-doc summarization few-shot synthetic code average
adakv; 10%; 27.56 22.78 22.14 62.24 34.00 61.77 37.23
snapkv+ada+critical:alpha=0; 10%; 23.31 23.29 22.27 63.61 28.34 60.42 35.94
snapkv+ada+critical:alpha=0.3; 10%; 25.08 24.49 22.85 63.50 33.15 60.86 37.24
snapkv+ada+critical:alpha=0.5; 10%; 28.79 25.33 22.72 63.35 32.64 60.57 37.94
snapkv+ada+critical:alpha=0.7; 10%; 28.70 24.65 22.60 62.38 33.00 60.51 37.62
= Table 9; easy; Llama-3.1-8B-Instruct; @domains average
full;; 43.10 46.49 28.97 69.45 53.73 57.86 49.20
adakv; 5%; 38.57 44.61 22.85 67.06 53.49 56.72 46.23
critical-adakv; 5%; 38.79 45.28 22.97 67.49 53.36 57.26 46.55
adakv; 10%; 41.36 46.03 24.17 68.65 53.25 57.63 47.65
critical-adakv; 10%; 41.07 46.08 24.63 68.72 53.56 58.24 47.82
adakv; 20%; 42.73 46.64 25.49 69.19 53.57 58.43 48.51
critical-adakv; 20%; - 46.42 26.05 69.03 54.45 58.57 48.73
adakv; 40%; - 47.02 27.24 69.36 53.96 58.27 49.08
critical-adakv; 40%; - 46.97 27.79 69.40 54.59 58.46 49.33
= Table 8; efficiency-chunks; Llama-3.1-8B-Instruct; @30000 @50000 @70000 @90000 @110000 @128000; first_s
full;; 30.57 30.54 30.50 30.53 30.43 29.79
adakv; 50%; 22.31 23.46 25.09 25.99 28.04 29.98
critical-adakv; 50%; 22.48 23.63 25.24 26.17 28.21 30.17
)";
}

}  // namespace pith
