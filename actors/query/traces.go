package query

import "queen/actors/machine/trace"

// Traces are the reads of traces over the same view, for as long as the request lasts.
func (r *Reads) Traces() *trace.Reads { return &trace.Reads{Reader: r.view, Check: r.ctx.Err} }
