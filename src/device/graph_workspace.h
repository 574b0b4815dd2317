// graph_workspace.h - what operations of Pith's own keep from graph to graph, as the runner of graphs sees it. Stage: device.
#pragma once

#include <cstddef>

namespace pith {

class GraphWorkspace {
public:
    GraphWorkspace() = default;
    virtual ~GraphWorkspace() = default;
    GraphWorkspace(const GraphWorkspace &) = delete;
    GraphWorkspace & operator=(const GraphWorkspace &) = delete;

    // What was handed out for the last graph may serve the next.
    virtual void begin_graph() = 0;
    // Whether the operations of the last run did all their work: there was memory for it.
    virtual bool finished() const = 0;
    // Memory that is kept.
    virtual size_t size_bytes() const = 0;
};

}  // namespace pith
