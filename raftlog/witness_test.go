package raftlog

import (
	"reflect"
	"testing"
)

func TestWitnessesNeverForgetWhatWasShown(t *testing.T) {
	var w witnesses
	w.note(Witness{NodeID: 2, Incarnation: "a", BootNonce: "1", Term: 3, Index: 40})
	for _, c := range []struct {
		name  string
		shown Witness
		want  Witness
	}{
		{"more", Witness{2, "a", "1", 4, 50}, Witness{2, "a", "1", 4, 50}},
		{"less, as an older leader says", Witness{2, "a", "1", 3, 45}, Witness{2, "a", "1", 4, 50}},
		{"a higher term only", Witness{2, "a", "2", 6, 49}, Witness{2, "a", "2", 6, 50}},
		{"another directory", Witness{2, "b", "3", 1, 0}, Witness{2, "b", "3", 1, 0}},
		{"nobody", Witness{2, "", "", 9, 90}, Witness{2, "b", "3", 1, 0}},
	} {
		w.note(c.shown)
		if got := w.all(); !reflect.DeepEqual(got, []Witness{c.want}) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for id := uint64(1); id < 100; id++ {
		w.note(Witness{NodeID: id, Incarnation: "x"})
	}
	if got := len(w.all()); got != maxWitnesses {
		t.Errorf("%d records", got)
	}
}
