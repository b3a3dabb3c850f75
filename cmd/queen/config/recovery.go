package config

import (
	"strings"
)

// ForceRecover is QUEEN_RAFT_FORCE_RECOVER (cluster 14). A NodeID of 0 means that no recovery is asked for.
type ForceRecover struct {
	NodeID uint32
	Word   string // may be empty: the bare <id>
}

const allowedForceRecover = "<id> or <id>@<word> with 1 to 64 of A-Z a-z 0-9 . _ - as word"

func parseForceRecover(text string) (ForceRecover, error) {
	idText, word, hasWord := strings.Cut(text, "@")
	id, err := parseNodeID(idText, "")
	if err != nil || hasWord && !isWord(word) {
		return ForceRecover{}, errNotAllowed
	}
	return ForceRecover{NodeID: id, Word: word}, nil
}

// maxWordBytes bounds the words that operators make up: recovery words and key ids.
const maxWordBytes = 64

// isWord accepts 1 to 64 of A-Z a-z 0-9 . _ -
func isWord(text string) bool {
	if text == "" || len(text) > maxWordBytes {
		return false
	}
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// ApplySkip names one entry that shall apply as nothing (cluster 13.3).
type ApplySkip struct {
	Group  int
	Index  uint64
	Digest string // 16 lower-case hex characters, or empty: no digest was given
}

const (
	allowedApplySkip = "[g<group>/]<index>[:<digest>],… with a digest of 16 hex characters"
	// applySkipDigestBytes is the length of a digest in characters (cluster 13.2).
	applySkipDigestBytes = 16
	highestGroup         = 63
)

func parseApplySkip(text string) ([]ApplySkip, error) {
	var skips []ApplySkip
	for _, item := range strings.Split(text, ",") {
		var skip ApplySkip
		if group, rest, found := strings.Cut(item, "/"); found {
			number, err := parseWhole(strings.TrimPrefix(group, "g"))
			if err != nil || number > highestGroup || !strings.HasPrefix(group, "g") {
				return nil, errNotAllowed
			}
			skip.Group, item = int(number), rest
		}
		indexText, digest, hasDigest := strings.Cut(item, ":")
		index, err := parseWhole(indexText)
		if err != nil || index < 1 {
			return nil, errNotAllowed
		}
		digest = strings.ToLower(digest)
		if hasDigest && (len(digest) != applySkipDigestBytes || strings.Trim(digest, "0123456789abcdef") != "") {
			return nil, errNotAllowed
		}
		skip.Index, skip.Digest = uint64(index), digest
		skips = append(skips, skip)
	}
	return skips, nil
}
