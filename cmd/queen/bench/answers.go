package bench

import "bytes"

// delivery is one message of a pop answer. Its slices alias the answer and live until the next call on the connection.
type delivery struct {
	transactionID []byte
	partitionID   []byte
	partition     []byte
	leaseID       []byte
	payload       []byte
}

// scanPop calls each for every message of a pop answer, in its order, and returns false when the answer is not one.
func scanPop(body []byte, each func(*delivery)) bool {
	scan := scanner{data: body}
	scan.need('{')
	messages := false
	for name, more := scan.key(true); more; name, more = scan.key(false) {
		if string(name) != "messages" {
			scan.value()
			continue
		}
		messages = true
		scan.need('[')
		for first := true; scan.element(first); first = false {
			if message, ok := scanMessage(&scan); ok {
				each(&message)
			}
		}
	}
	return messages && !scan.bad
}

func scanMessage(scan *scanner) (delivery, bool) {
	var message delivery
	scan.need('{')
	for name, more := scan.key(true); more; name, more = scan.key(false) {
		switch string(name) {
		case "transactionId":
			message.transactionID = scan.str()
		case "partitionId":
			message.partitionID = scan.str()
		case "partition":
			message.partition = scan.str()
		case "leaseId":
			message.leaseID = scan.str()
		case "data":
			message.payload = scan.value()
		default:
			scan.value()
		}
	}
	if !scan.bad && (message.transactionID == nil || message.partitionID == nil) {
		scan.fail()
	}
	return message, !scan.bad
}

// The answers of the broker are compact JSON, in which these texts cannot stand inside a string: its quotes would be escaped. So
// counting them is exact, and much cheaper than parsing. An answer that does not add up is parsed.
var (
	queuedMark  = []byte(`"status":"queued"`)
	successMark = []byte(`"success":true`)
	noopMark    = []byte(`"noop":true`)
)

// pushedStatus is what the broker said about one pushed item.
type pushedStatus uint8

const (
	statusQueued pushedStatus = iota
	statusDuplicate
	statusError
)

// allQueued recognises the usual push answer: every item stored.
func allQueued(body []byte, items int) bool { return bytes.Count(body, queuedMark) == items }

// scanPush calls each with the position and status of every item and returns false when the answer does not have one for
// each of them.
func scanPush(body []byte, items int, each func(item int, status pushedStatus, reason []byte)) bool {
	scan := scanner{data: body}
	scan.need('[')
	seen := 0
	for first := true; scan.element(first); first = false {
		scan.need('{')
		var status, reason []byte
		for name, more := scan.key(true); more; name, more = scan.key(false) {
			switch string(name) {
			case "status":
				status = scan.str()
			case "error":
				reason = scan.value()
			default:
				scan.value()
			}
		}
		if scan.bad || seen >= items {
			return false
		}
		switch string(status) {
		case "queued":
			each(seen, statusQueued, nil)
		case "duplicate":
			each(seen, statusDuplicate, nil)
		case "error":
			each(seen, statusError, reason)
		default:
			return false
		}
		seen++
	}
	return !scan.bad && seen == items
}

// allAcked recognises the usual ack answer: every item done by this call.
func allAcked(body []byte, items int) bool {
	return bytes.Count(body, successMark) == items && !bytes.Contains(body, noopMark)
}

// scanAck calls each with the verdict on every item and returns false when the answer does not have one for each of them.
func scanAck(body []byte, items int, each func(item int, success bool, reason []byte)) bool {
	scan := scanner{data: body}
	scan.need('[')
	seen := 0
	for first := true; scan.element(first); first = false {
		scan.need('{')
		var success, reason []byte
		for name, more := scan.key(true); more; name, more = scan.key(false) {
			switch string(name) {
			case "success":
				success = scan.value()
			case "error":
				reason = scan.value()
			default:
				scan.value()
			}
		}
		if scan.bad || seen >= items {
			return false
		}
		each(seen, string(success) == "true", reason)
		seen++
	}
	return !scan.bad && seen == items
}
