package config

import (
	"slices"
	"strings"
)

// unknownNames returns one WARN line per QUEEN_ variable that the table does not know (cluster 1.1.6).
func unknownNames(rows []variable, environment map[string]string) []string {
	var lines []string
	for name := range environment {
		known := slices.ContainsFunc(rows, func(row variable) bool { return row.name == name })
		if known || !strings.HasPrefix(name, "QUEEN_") {
			continue
		}
		line := "config: unknown variable " + name + " is ignored"
		if near := nearest(rows, name); near != "" {
			line += " (did you mean " + near + "?)"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

const (
	// maxEdits is how many typing mistakes still count as close.
	maxEdits = 3
	// maxComparedBytes keeps an absurd variable name from costing a long comparison.
	maxComparedBytes = 100
)

// nearest finds the known name that differs from name in the fewest letters, or "" when none is close.
func nearest(rows []variable, name string) string {
	if len(name) > maxComparedBytes {
		return ""
	}
	best, fewest := "", maxEdits+1
	for _, row := range rows {
		if edits := editDistance(row.name, name); edits < fewest {
			best, fewest = row.name, edits
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements of bytes between two texts.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
