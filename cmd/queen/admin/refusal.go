package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Refusal is an answer that is not 2xx, with the server's own words (cluster 4.2, 8.5).
type Refusal struct {
	Status int
	Code   string // empty when the answer names none
	Text   string
	Body   []byte // as it came

	retryAfter time.Duration
}

// maxShownBytes keeps an answer that is no JSON, such as a proxy's page, to one line.
const maxShownBytes = 200

func newRefusal(response *http.Response, body []byte) *Refusal {
	refusal := &Refusal{Status: response.StatusCode, Body: body, retryAfter: time.Second}
	var said struct {
		Code  string `json:"code"`
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && (said.Code != "" || said.Error != "") {
		refusal.Code, refusal.Text = said.Code, said.Error
	} else {
		text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		refusal.Text = strings.ToValidUTF8(text[:min(len(text), maxShownBytes)], "")
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		refusal.retryAfter = min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	return refusal
}

// Error returns status, code and text, without those that are missing.
func (r *Refusal) Error() string {
	parts := []string{strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, r.Code))}
	if r.Text != "" {
		parts = append(parts, r.Text)
	}
	return strings.Join(parts, ": ")
}

// Unauthorised tells whether the server wants another token.
func (r *Refusal) Unauthorised() bool {
	return r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
}
