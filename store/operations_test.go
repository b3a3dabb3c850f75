package store

import "testing"

func TestOperationsAreCounted(t *testing.T) {
	s := mustOpen(t, testOptions(t, t.TempDir()))
	defer mustClose(t, s)
	before := s.Operations()
	b := s.Begin(1, 1)
	b.Put([]byte("a"), []byte("1"))
	b.Put([]byte("b"), []byte("1"))
	b.Delete([]byte("c"))
	commit(t, s, b)
	view := s.View()
	defer view.Close()
	if _, err := view.Get([]byte("nothing")); err != nil {
		t.Fatal(err)
	}
	if err := view.Scan([]byte("a"), nil, func(_, _ []byte) bool { return true }); err != nil {
		t.Fatal(err)
	}
	after := s.Operations()
	own := after.Puts - before.Puts - 2 // the store books rows of its own with every entry
	if after.Gets-before.Gets != 1 || after.Seeks-before.Seeks != 1 || after.Deletes-before.Deletes != 1 || own > 4 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
