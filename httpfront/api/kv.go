package api

import (
	"context"
	"strconv"
	"time"

	"queen/actors"
	"queen/actors/machine/kv"
	"queen/httpfront"
	"queen/httpfront/wire"
	"queen/raftlog/command"
)

// KVConfig holds the settings of the KV store (cluster 1.9).
type KVConfig struct {
	// ValueBytes is QUEEN_KV_MAX_VALUE_BYTES, ReadBytes QUEEN_KV_MAX_READ_BYTES.
	ValueBytes, ReadBytes uint32
	// Ops is QUEEN_KV_MAX_OPS_PER_CALL, Keys QUEEN_KV_MAX_KEYS_PER_CALL.
	Ops, Keys int
}

// limits are those that stand in a command.
func (c *KVConfig) limits() command.KVLimits {
	return command.KVLimits{ValueBytes: c.ValueBytes, ReadBytes: c.ReadBytes}
}

// bounds are those of a call.
func (c *KVConfig) bounds() *wire.KVBounds {
	return &wire.KVBounds{Ops: c.Ops, Keys: c.Keys, ValueBytes: int(c.ValueBytes)}
}

// kvUse is what a call of the KV store or of locks does.
type kvUse struct {
	// writes tells that it needs an entry, grows that it may store more than there was.
	writes, grows bool
	// answerBytes is how large the answer may be.
	answerBytes int64
}

// rowAnswerBytes is what a row takes in an answer without its value: its key and the rest, names and times.
const rowAnswerBytes = 640

func useOfKV(ops []command.KVOp, limits command.KVLimits) (use kvUse) {
	value, listed, lists := int64(limits.ValueBytes), int64(0), int64(0)
	for i := range ops {
		kind, rows := ops[i].Kind, int64(1)
		use.writes = use.writes || kind.Writes()
		use.grows = use.grows || kind.Writes() && kind != command.KVDelete
		switch {
		case kind == command.KVGetMany:
			rows = int64(len(ops[i].Keys))
			listed, lists = listed+rows*value, lists+1
		case kind == command.KVGetPrefix && ops[i].KeysOnly:
			rows = int64(ops[i].Limit)
		case kind == command.KVGetPrefix:
			rows = int64(ops[i].Limit)
			listed, lists = listed+rows*value, lists+1
		default: // shows the value that it has found, whatever the others have shown
			use.answerBytes += value
		}
		use.answerBytes += rows * rowAnswerBytes
	}
	// Of the bytes that they share each may exceed what is left by one row (state 2.8).
	use.answerBytes += min(listed, int64(limits.ReadBytes)+lists*value)
	return use
}

// admitKV is the one place that decides whether a tenant may use the KV store and its locks now. Grants (403 feature_gated) and rates
// (429 rate_limited) belong in front of what it does (state 2.5, 2.9, 11.3). Whether an operator has turned KV off is judged with the
// rows, where they are read and in the log.
func (a *API) admitKV(use kvUse) error {
	if use.grows {
		if refusal := a.gate.Closed(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// callRows runs a call of the KV store or of locks: through the log when it writes, else on a linearizable view (state 2.6). Room for
// its answer is reserved before anything is read.
func callRows[R command.Result](a *API, r *httpfront.Request, use kvUse, call command.Command, read func(context.Context) (R, error)) (result R, err error) {
	span, err := a.span(r, a.config.WriteTimeout)
	if err == nil && use.writes {
		err = a.whileOn(r, command.SwitchKV)
	}
	if err == nil {
		err = a.admitKV(use)
	}
	if err == nil {
		err = r.ReserveAnswer(use.answerBytes)
	}
	if err != nil {
		return result, err
	}
	if !use.writes {
		ctx, cancel := contextUntil(span.Deadline)
		defer cancel()
		return read(ctx)
	}
	if use.grows {
		if err := r.Admit(); err != nil {
			return result, err
		}
	}
	applied, err := a.broker().Execute(span, call)
	if err != nil {
		return result, err
	}
	return applied.(R), nil
}

func (a *API) callKV(r *httpfront.Request, ops []command.KVOp) (*command.KVResult, error) {
	limits := a.config.KV.limits()
	call := &command.KV{Tenant: r.Tenant, Limits: limits, Ops: ops}
	result, err := callRows(a, r, useOfKV(ops, limits), call, func(ctx context.Context) (*command.KVResult, error) {
		return a.broker().ReadKV(ctx, call)
	})
	a.countKV(ops, result, time.Since(r.Arrived))
	return result, err
}

// kv runs operations on rows (state 2.2).
func (a *API) kv(r *httpfront.Request) error {
	ops, err := wire.DecodeKV(r.Body(), a.config.KV.bounds())
	if err != nil {
		return err
	}
	result, err := a.callKV(r, ops)
	if err != nil {
		return err
	}
	r.Answer(200, func(dst []byte) []byte { return wire.AppendKV(dst, ops, result) })
	return nil
}

// withoutQuery is a handler of a route that takes no query string (state 2.10).
func withoutQuery(handle handler) handler {
	return func(r *httpfront.Request) error {
		if r.HasQuery() {
			return refuseFor(httpfront.CodeKVBadRequest, "kv_no_query_string", "this route takes no query string")
		}
		return handle(r)
	}
}

// getRow reads the row that a path names (state 2.10).
func (a *API) getRow(r *httpfront.Request) error {
	op, err := wire.DecodeKVGet(r.Param("ns"), r.Param("key"))
	return a.oneRow(r, &op, err)
}

// putRow writes it.
func (a *API) putRow(r *httpfront.Request) error {
	op, err := wire.DecodeKVPut(r.Body(), r.Param("ns"), r.Param("key"), a.config.KV.bounds())
	return a.oneRow(r, &op, err)
}

// deleteRow deletes it.
func (a *API) deleteRow(r *httpfront.Request) error {
	op, err := wire.DecodeKVDelete(r.Body(), r.Param("ns"), r.Param("key"))
	return a.oneRow(r, &op, err)
}

// oneRow runs the operation of a path route, unless it could not be decoded.
func (a *API) oneRow(r *httpfront.Request, op *command.KVOp, err error) error {
	if err != nil {
		return err
	}
	result, err := a.callKV(r, []command.KVOp{*op})
	if err != nil {
		return err
	}
	if result.Lost != nil {
		r.JSONOwned(200, wire.AppendKVLost(nil, result.Lost))
		return nil
	}
	if row := &result.Ops[0]; row.Found {
		r.Ctx.Response.Header.Set("ETag", `"`+strconv.FormatUint(row.Version, 10)+`"`)
	}
	r.Answer(200, func(dst []byte) []byte { return wire.AppendKVElement(dst, 0, op, &result.Ops[0]) })
	return nil
}

// consoleKV is a read of the console, whose answer may have so many bytes.
func consoleKV[R any](a *API, r *httpfront.Request, answerBytes int64, read func(context.Context) (R, error)) (result R, err error) {
	deadline, err := a.deadline(r, a.config.WriteTimeout)
	if err == nil {
		err = a.admitKV(kvUse{})
	}
	if err == nil {
		err = r.ReserveAnswer(answerBytes)
	}
	if err != nil {
		return result, err
	}
	ctx, cancel := contextUntil(deadline)
	defer cancel()
	return read(ctx)
}

// listKVNamespaces shows the namespaces of a tenant (state 2.11).
func (a *API) listKVNamespaces(r *httpfront.Request) error {
	namespaces, err := consoleKV(a, r, 0, func(ctx context.Context) ([]actors.KVNamespace, error) {
		return a.broker().KVNamespaces(ctx, r.Tenant)
	})
	if err != nil {
		return err
	}
	type row struct {
		Namespace string `json:"namespace"`
		Keys      uint64 `json:"keys"`
	}
	rows := make([]row, len(namespaces))
	for i, namespace := range namespaces {
		rows[i] = row{namespace.Name, namespace.Rows}
	}
	return answerJSON(r, 200, map[string]any{"namespaces": rows})
}

// listKV shows a page of a namespace (state 2.11).
func (a *API) listKV(r *httpfront.Request) error {
	body, err := wire.DecodeKVList(r.Body())
	if err != nil {
		return err
	}
	bytes := int64(body.Limit) * rowAnswerBytes
	if !body.KeysOnly {
		bytes += min(int64(body.Limit)*int64(a.config.KV.ValueBytes), consoleReadBytes+int64(a.config.KV.ValueBytes))
	}
	listed, err := consoleKV(a, r, bytes, func(ctx context.Context) (*kv.Listed, error) {
		return a.broker().ListKV(ctx, kv.ListInput{
			Tenant: r.Tenant, Namespace: body.Namespace, Prefix: body.Prefix, After: body.After, Limit: body.Limit, KeysOnly: body.KeysOnly,
			IncludeExpired: body.IncludeExpired, ReadBytes: consoleReadBytes,
		})
	})
	if err != nil {
		return err
	}
	page := &wire.KVPage{KeysOnly: body.KeysOnly, Truncated: listed.Truncated, After: listed.After, Bytes: listed.Bytes}
	for i := range listed.Rows {
		page.Rows = append(page.Rows, wire.KVPageRow{Row: &listed.Rows[i].KVRow, Expired: listed.Rows[i].Expired})
	}
	r.Answer(200, func(dst []byte) []byte { return wire.AppendKVPage(dst, page) })
	return nil
}

// consoleReadBytes bounds the values of a page of the console (state 2.11).
const consoleReadBytes = 4 << 20
