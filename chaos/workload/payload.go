package workload

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// payload is what a message carries: its token, and filler whose length follows from the token.
type payload struct {
	Token  string `json:"token"`
	Filler string `json:"filler"`
}

func newPayload(token string, fillerMax int) payload {
	return payload{Token: token, Filler: filler(token, fillerMax)}
}

func filler(token string, fillerMax int) string {
	if fillerMax <= 0 {
		return ""
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(token)) // a hash does not fail
	length := int(hash.Sum32() % uint32(fillerMax))
	return strings.Repeat(token+" ", length/(len(token)+1)+1)[:length]
}

// tokenOf reads the token back. A payload that is not exactly what was pushed under its token gives a text that is no
// token, so that the checker finds it altered.
func tokenOf(data json.RawMessage, fillerMax int) string {
	var read payload
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Sprintf("unreadable %.80s: %v", data, err)
	}
	if read.Filler != filler(read.Token, fillerMax) {
		return fmt.Sprintf("changed %.80s", data)
	}
	return read.Token
}
