package outcome

import (
	"fmt"
	"testing"

	"queen/raftlog/command"
	"queen/store"
)

// nowhere is a Writer that keeps nothing.
type nowhere struct{}

func (nowhere) Put(_, _ []byte)                            {}
func (nowhere) Delete([]byte)                              {}
func (nowhere) ReserveChunk() uint32                       { return 0 }
func (nowhere) SetChunk(uint32, []byte) (r store.ChunkRef) { return r }
func (nowhere) ReleaseChunk(store.ChunkRef)                {}

// BenchmarkEntry records the requests of entries of small pushes, all of which are answered 4 entries later.
func BenchmarkEntry(b *testing.B) {
	for _, requests := range []uint64{1, 50} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) {
			w, err := Load(newMemory())
			if err != nil {
				b.Fatal(err)
			}
			result := &command.PushResult{Groups: []command.PushGroupResult{{Partition: 700, FirstOffset: 70_000}}}
			b.ReportAllocs()
			index := uint64(0)
			for b.Loop() {
				w.Begin(index+1, testStart+index)
				for i := range requests {
					item := call(7, index*requests+i, requests*(index-min(index, 4)))
					if _, known, _ := w.Find(nil, item.Request); known {
						b.Fatal("a new request is known")
					}
					w.Note(&item, result)
				}
				w.Finish(nowhere{}, FinishInput{WindowSeconds: testWindow, RoomBytes: testRoom})
				index++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(uint64(b.N)*requests), "ns/request")
		})
	}
}
