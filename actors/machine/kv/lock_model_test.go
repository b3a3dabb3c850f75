package kv

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"queen/raftlog/command"
)

// modelLock are the permits of a lock by their slots, those that have ended included.
type modelLock map[uint32]command.LockHolder

func (l modelLock) holders(below uint32, now uint64) (holders []command.LockHolder) {
	for _, slot := range slices.Sorted(maps.Keys(l)) {
		if h := l[slot]; slot < below && h.ExpiresMicros > now {
			holders = append(holders, h)
		}
	}
	return holders
}

// op executes an operation; token is the next one, used tells that it was given.
func (l modelLock) op(op *command.LockOp, now, token uint64) (result command.LockOpResult, used bool) {
	ends := now + op.TTLSeconds*second
	h, stored := l[op.Slot]
	live := stored && h.ExpiresMicros > now
	switch op.Kind {
	case command.LockGet:
		holders := l.holders(MaxSlots, now)
		return command.LockOpResult{Done: holders != nil, Holders: holders}, false
	case command.LockAcquire:
		holders := l.holders(op.Limit, now)
		for _, h := range holders {
			if h.Owner != "" && h.Owner == op.Owner {
				return command.LockOpResult{Done: true, Already: true, Slot: h.Slot, Token: h.Token}, false
			}
		}
		for slot := range op.Limit {
			if h, stored := l[slot]; !stored || h.ExpiresMicros <= now {
				l[slot] = command.LockHolder{Slot: slot, Owner: op.Owner, Token: token, SinceMicros: now, UpdatedMicros: now, ExpiresMicros: ends}
				return command.LockOpResult{Done: true, Slot: slot, Token: token}, true
			}
		}
		return command.LockOpResult{Holders: holders}, false
	case command.LockRenew:
		if live && (h.Token == op.Token || op.Owner != "" && h.Owner == op.Owner) {
			h.Token, h.UpdatedMicros, h.ExpiresMicros = token, now, ends
			l[op.Slot] = h
			return command.LockOpResult{Done: true, Slot: op.Slot, Token: token}, true
		}
	case command.LockRelease:
		if live && h.Token == op.Token {
			delete(l, op.Slot)
			return command.LockOpResult{Done: true, Slot: op.Slot}, false
		}
	}
	result.Slot = op.Slot
	if live {
		result.Holders = []command.LockHolder{h}
	}
	return result, false
}

// drawLockOp mostly names a token that was given.
func drawLockOp(t *rapid.T, name string, last uint64) command.LockOp {
	op := command.LockOp{Name: name, Kind: command.LockOpKind(rapid.IntRange(int(command.LockAcquire), int(command.LockGet)).Draw(t, "kind"))}
	if op.Kind == command.LockAcquire || op.Kind == command.LockRenew {
		op.Owner = rapid.SampledFrom([]string{"", "a", "b", "c\"é", "d"}).Draw(t, "owner")
		op.TTLSeconds = rapid.Uint64Range(1, 5).Draw(t, "ttl")
	}
	if op.Kind == command.LockAcquire {
		op.Limit = rapid.SampledFrom([]uint32{1, 2, 3, 12}).Draw(t, "limit")
	}
	if op.Kind == command.LockRenew || op.Kind == command.LockRelease {
		op.Slot = rapid.Uint32Range(0, 3).Draw(t, "slot")
		op.Token = rapid.Uint64Range(last-min(last, 6), last).Draw(t, "token")
	}
	return op
}

// TestLocksFollowTheModel compares every answer with that of maps of permits, whatever is swept in between.
func TestLocksFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		names := []string{"a", "b", "a.b"}
		locks := map[string]modelLock{}
		for _, name := range names {
			locks[name] = modelLock{}
		}
		last := uint64(0)
		call := func(t *rapid.T) {
			var ops []command.LockOp
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "names") {
				ops = append(ops, drawLockOp(t, name, last))
			}
			got := r.locks(ops...)
			for i := range ops {
				want, used := locks[ops[i].Name].op(&ops[i], r.now, last+1)
				if used {
					last++
				}
				if !reflect.DeepEqual(got[i], want) {
					t.Fatalf("%+v\ngives %+v\nwant  %+v", ops[i], got[i], want)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"call": call, "call2": call, "call3": call,
			"time": func(t *rapid.T) {
				r.now += rapid.SampledFrom([]uint64{1, second, 2*second - 3, 7 * second}).Draw(t, "pause")
			},
			"sweep": func(*rapid.T) { r.sweep(3) },
		})
	})
}

// TestPermitsNeverExceedTheirLimit: whatever callers do, a semaphore has no more holders than its limit, in distinct slots, and
// a slot that changes hands has a higher token, so that the guard of the earlier holder is lost.
func TestPermitsNeverExceedTheirLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		limit := rapid.Uint32Range(1, 4).Draw(t, "limit")
		type permit struct {
			slot  uint32
			token uint64
		}
		tokens := map[string]permit{} // what each caller believes to hold
		newest := map[uint32]uint64{}
		caller := func(t *rapid.T) string { return fmt.Sprint("o", rapid.IntRange(0, 11).Draw(t, "caller")) }
		note := func(owner string, result command.LockOpResult) {
			if !result.Done {
				return
			}
			if !result.Already && result.Token <= newest[result.Slot] {
				t.Fatalf("token %d of slot %d after %d", result.Token, result.Slot, newest[result.Slot])
			}
			newest[result.Slot] = result.Token
			tokens[owner] = permit{result.Slot, result.Token}
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				owner := caller(t)
				note(owner, r.lock(acquire(owner, limit)))
			},
			"renew": func(t *rapid.T) {
				owner := caller(t)
				op := renew(tokens[owner].token, owner)
				op.Slot = tokens[owner].slot
				note(owner, r.lock(op))
			},
			"release": func(t *rapid.T) {
				owner := caller(t)
				op := release(tokens[owner].token)
				op.Slot = tokens[owner].slot
				r.lock(op)
			},
			"time":  func(t *rapid.T) { r.now += rapid.SampledFrom([]uint64{second, 11 * second}).Draw(t, "pause") },
			"sweep": func(*rapid.T) { r.sweep(2) },
			"": func(t *rapid.T) {
				holders := r.lock(getLock()).Holders
				if len(holders) > int(limit) {
					t.Fatalf("%d holders with limit %d", len(holders), limit)
				}
				for i, h := range holders {
					if h.Slot >= limit || i > 0 && h.Slot <= holders[i-1].Slot {
						t.Fatalf("holders %+v", holders)
					}
				}
				for owner, held := range tokens {
					lost := r.execute(Guard("l", held.slot, held.token)).(*command.KVResult).Lost != nil
					holds := slices.ContainsFunc(holders, func(h command.LockHolder) bool {
						return h.Owner == owner && h.Slot == held.slot && h.Token == held.token && h.ExpiresMicros > r.now
					})
					if lost == holds {
						t.Fatalf("%s holds its permit: %v, its guard is lost: %v", owner, holds, lost)
					}
				}
			},
		})
	})
}
