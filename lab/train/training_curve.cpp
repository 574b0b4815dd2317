// training_curve.cpp - see training_curve.h.
#include "train/training_curve.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "file/write_file.h"

namespace pith::train {
namespace {

constexpr char kHeader[] = "step,tokens_seen,length,what,value";

std::string row_of(const CurvePoint & p) {
    char value[32];
    std::snprintf(value, sizeof value, "%.6g", p.value);
    std::ostringstream out;
    out << p.step << ',' << p.tokens_seen << ',' << p.n_tokens << ',' << p.what << ',' << value << '\n';
    return out.str();
}

bool parse(const std::string & line, CurvePoint & p) {
    std::istringstream in(line);
    char comma[4] = {};
    in >> p.step >> comma[0] >> p.tokens_seen >> comma[1] >> p.n_tokens >> comma[2];
    return std::getline(in, p.what, ',') && in >> p.value && comma[0] == ',' && comma[1] == ',' && comma[2] == ',';
}

}  // namespace

Result<std::vector<CurvePoint>> read_curve(const std::string & path) {
    std::ifstream in(path);
    if (!in) { return {ErrorCode::kNotFound, "no training curve '" + path + "'"}; }
    std::vector<CurvePoint> points;
    std::string line;
    for (int n = 1; std::getline(in, line) && !in.eof(); ++n) {
        CurvePoint p;
        if (n == 1 && line == kHeader) { continue; }
        if (n == 1 || !parse(line, p)) {
            return {ErrorCode::kBadFile, "training curve '" + path + "', line " + std::to_string(n) + ": not " + kHeader};
        }
        points.push_back(std::move(p));
    }
    return points;
}

Result<TrainingCurve> TrainingCurve::open(const std::string & path, int64_t last_step) {
    Result<std::vector<CurvePoint>> old = read_curve(path);
    if (!old.ok() && old.status().code() != ErrorCode::kNotFound) { return old.status(); }
    std::string text = std::string(kHeader) + '\n';
    for (const CurvePoint & p : old.ok() ? *old : std::vector<CurvePoint>()) {
        if (p.step <= last_step) { text += row_of(p); }
    }
    PITH_RETURN_IF_ERROR(write_file(path, text));
    PITH_ASSIGN_OR_RETURN(AppendedFile file, AppendedFile::open(path));
    return TrainingCurve(std::move(file));
}

Status TrainingCurve::append(const std::vector<CurvePoint> & points) {
    std::string rows;
    for (const CurvePoint & p : points) { rows += row_of(p); }
    PITH_RETURN_IF_ERROR(file_.append(rows));
    return file_.sync();
}

}  // namespace pith::train
