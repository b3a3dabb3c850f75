package raftlog

import (
	"fmt"
	"slices"
	"strings"

	"queen/raftlog/command"
)

// describeEntry tells an operator what an entry holds (cluster 7.1, apply.failure): the name of its first command, and how many
// commands of each name there are. Both are empty for an entry that cannot be read.
func describeEntry(data []byte) (first, all string) {
	entry, err := command.DecodeEntry(data)
	if err != nil || len(entry.Items) == 0 {
		return "", ""
	}
	counts := map[string]int{}
	var names []string
	for i := range entry.Items {
		name := entry.Items[i].Command.Op().String()
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
	}
	first = names[0]
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return first, strings.Join(names, ", ")
}
