package actors

import (
	"fmt"

	window "queen/actors/machine/outcome"
	"queen/raftlog/command"
	"queen/store"
)

// executed is what the commands of an entry came to.
type executed struct {
	entry   *command.Entry
	results []command.Result
	// repeats are the places of the commands that had been executed before; mostly none.
	repeats []int
}

// publish answers the requests of this node. A repeat has happened once only: it is answered and not counted again.
func (e *executed) publish(observer Observer, pending *pending, settled func(command.RequestID)) {
	repeats := e.repeats
	for i := range e.entry.Items {
		item := &e.entry.Items[i]
		if len(repeats) > 0 && repeats[0] == i {
			repeats = repeats[1:]
		} else {
			observer.Applied(e.entry.Header.StampMicros, item.Command, e.results[i])
		}
		pending.resolve(item.Request, e.results[i])
		if item.Request.Origin == pending.origin {
			settled(item.Request)
		}
	}
}

// once executes a command of the entry, unless it has been executed before under the same request id: then its result is
// the one of the first time, and nothing changes (I9). Commands that no request waits for have the zero id.
func (a *apply) once(done *executed, i int) (err error) {
	item := &done.entry.Items[i]
	if item.Request == (command.RequestID{}) {
		done.results[i], err = a.command(item.Command)
		return err
	}
	var known bool
	if done.results[i], known, err = a.outcomes.Find(a.batch, item.Request); err != nil {
		return err
	}
	if known {
		done.repeats = append(done.repeats, i)
		return nil
	}
	if done.results[i], err = a.command(item.Command); err == nil {
		a.outcomes.Note(item, done.results[i])
	}
	return err
}

// beginOutcomes loads the window when an entry before has been abandoned.
func (a *apply) beginOutcomes(index uint64) error {
	if a.outcomes == nil {
		loaded, err := window.Load(a.batch)
		if err != nil {
			return fmt.Errorf("load outcomes: %w", err)
		}
		a.outcomes = loaded
	}
	a.outcomes.Begin(index, a.header.StampMicros)
	return nil
}

// finishOutcomes writes what the entry adds to the window and takes out of it. overflow has left room for that.
func (a *apply) finishOutcomes() {
	_, _, chunkBytes := a.batch.Size()
	a.outcomes.Finish(a.batch, window.FinishInput{
		WindowSeconds: a.header.Settings.RequestIDWindowSeconds, RoomBytes: store.MaxBlockBytes - chunkBytes - chunkOverheadBytes,
	})
}

// chunkOverheadBytes is more than a chunk takes in its block beside its bytes.
const chunkOverheadBytes = 64

// overflow tells whether the batch can still be committed, with what is written at the end of an entry.
func (a *apply) overflow() error {
	if err := a.batch.Overflow(); err != nil {
		return err
	}
	if keys, bytes, chunkBytes := a.batch.Size(); keys+endKeys > store.MaxBatchKeys || bytes+endBytes > store.MaxBatchBytes ||
		chunkBytes+endChunkBytes > store.MaxBlockBytes {
		return fmt.Errorf("%w: %d keys, %d bytes and chunks of %d bytes leave no room for the outcomes of the entry",
			store.ErrTooBig, keys, bytes, chunkBytes)
	}
	return nil
}
