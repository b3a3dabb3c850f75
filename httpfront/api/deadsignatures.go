package api

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"queen/actors/machine/deadletter"
	"queen/actors/query"
	"queen/httpfront"
)

const (
	signatureSample    = 200
	signatureSampleMax = 1000
	// signatureBytes bounds the text of a signature: what follows rarely tells one kind of error from another.
	signatureBytes = 200
)

type signatureRow struct {
	Text  string  `json:"text"`
	N     int     `json:"n"`
	Share float64 `json:"share"`
}

type countedKey[K cmp.Ordered] struct {
	Key K   `json:"key"`
	N   int `json:"n"`
}

type signaturesAnswer struct {
	Queue       string               `json:"queue"`
	RowsNow     uint64               `json:"rowsNow"`
	Sample      int                  `json:"sample"`
	RetryCounts []countedKey[uint32] `json:"retryCounts"`
	Groups      []countedKey[string] `json:"groups"`
	Oldest      micros               `json:"oldest"`
	Newest      micros               `json:"newest"`
	AvgBytes    float64              `json:"avgBytes"`
	Signatures  []signatureRow       `json:"signatures"`
	ByDay       []countedKey[string] `json:"byDay"`
}

// deadLetterSignatures answers /api/v1/analytics/dlq-signatures: what the newest dead letters of a queue have in common.
func (a *API) deadLetterSignatures(r *httpfront.Request, _ *window) error {
	name, named, err := r.QueryText("queue")
	if err == nil && !named {
		err = httpfront.Refuse(httpfront.CodeBadRequest, "queue required")
	}
	if err != nil {
		return err
	}
	limit, err := r.QueryClamped("limit", signatureSample, 1, signatureSampleMax)
	if err != nil {
		return err
	}
	return a.reading(r, func(q *query.Reads) error {
		var rows []*deadletter.Row
		var total uint64
		if queue := a.broker().Directory().Queue(r.Tenant, name); queue != nil {
			if rows, total, err = q.NewestDeadLetters(queue.ID, int(limit)); err != nil {
				return err
			}
		}
		answer, err := summarizeDeadLetters(q, rows)
		if err != nil {
			return err
		}
		answer.Queue, answer.RowsNow = name, total
		return answerJSON(r, 200, answer)
	})
}

func summarizeDeadLetters(q *query.Reads, rows []*deadletter.Row) (*signaturesAnswer, error) {
	answer := &signaturesAnswer{Sample: len(rows), Signatures: []signatureRow{}}
	retries, groups, days, texts := map[uint32]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	bytes := 0
	for _, row := range rows {
		retries[row.RetryCount]++
		groups[row.Group]++
		days[time.UnixMicro(int64(row.FailedMicros)).UTC().Format(time.DateOnly)]++
		texts[signature(row.Error)]++
		failed := micros(row.FailedMicros)
		if answer.Oldest == 0 || failed < answer.Oldest {
			answer.Oldest = failed
		}
		answer.Newest = max(answer.Newest, failed)
		err := row.Stored(q.View(), func(stored []byte) error {
			message, err := deadletter.DecodeMessage(stored)
			bytes += len(message.Payload)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	answer.RetryCounts, answer.Groups, answer.ByDay = byKey(retries), byCount(groups), byKey(days)
	for _, text := range byCount(texts) {
		answer.Signatures = append(answer.Signatures, signatureRow{text.Key, text.N, float64(text.N) / float64(len(rows))})
	}
	if len(rows) > 0 {
		answer.AvgBytes = float64(bytes) / float64(len(rows))
	}
	return answer, nil
}

func counted[K cmp.Ordered](counts map[K]int, compare func(x, y countedKey[K]) int) []countedKey[K] {
	list := make([]countedKey[K], 0, len(counts))
	for key, n := range counts {
		list = append(list, countedKey[K]{key, n})
	}
	slices.SortFunc(list, compare)
	return list
}

func byKey[K cmp.Ordered](counts map[K]int) []countedKey[K] {
	return counted(counts, func(x, y countedKey[K]) int { return cmp.Compare(x.Key, y.Key) })
}

func byCount[K cmp.Ordered](counts map[K]int) []countedKey[K] {
	return counted(counts, func(x, y countedKey[K]) int { return cmp.Or(cmp.Compare(y.N, x.N), cmp.Compare(x.Key, y.Key)) })
}

// signature is what errors of one kind have in common: words with a digit, such as ids, amounts and addresses, become #,
// and long texts are cut.
func signature(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if strings.ContainsAny(word, "0123456789") {
			words[i] = "#"
		}
	}
	text = strings.Join(words, " ")
	if len(text) <= signatureBytes {
		return text
	}
	cut := signatureBytes
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
