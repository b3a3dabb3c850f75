package catalog

import (
	"maps"
	"slices"
	"strings"
)

// memory is a Reader and Writer over a map.
type memory map[string][]byte

func (m memory) Get(key []byte) ([]byte, error) { return m[string(key)], nil }
func (m memory) Put(key, value []byte)          { m[string(key)] = append([]byte{}, value...) }
func (m memory) Delete(key []byte)              { delete(m, string(key)) }

func (m memory) Scan(prefix, from []byte, visit func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(key, string(prefix)) && key >= string(from) && !visit([]byte(key), m[key]) {
			return nil
		}
	}
	return nil
}
