package wire

import (
	"time"
)

// Timestamps outside these years are not written by anybody; the range keeps the arithmetic in 64 bits.
const (
	minYear = 0
	maxYear = 9999
)

// ParseTime reads an ISO 8601 or RFC 3339 timestamp and returns Unix microseconds; digits below them are cut off. Date and
// time are separated by T, t or a space; the seconds and the time as a whole may be missing; without a zone it is UTC
// (messaging 2.12). Second 60 is taken where RFC 3339 (5.7) has leap seconds, at the end of a month in UTC, and means the
// instant after it, because Unix time does not count them.
func ParseTime[T string | []byte](text T) (micros int64, ok bool) {
	p := timeParser{text: string(text), ok: len(text) <= maxTimeBytes}
	year := p.number(4)
	p.expect("-")
	month := p.number(2)
	p.expect("-")
	day := p.number(2)
	var hour, minute, second, fraction, offset int
	if p.ok && p.at < len(p.text) {
		p.expect("Tt ")
		hour = p.number(2)
		p.expect(":")
		minute = p.number(2)
		if p.next(":") {
			second = p.number(2)
			if p.next(".,") {
				fraction = p.fraction()
			}
		}
		offset = p.zone()
	}
	if !p.ok || p.at != len(p.text) || year < minYear || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) ||
		hour > 23 || minute > 59 || second > 60 {
		return 0, false
	}
	days := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix()
	seconds := days + int64(hour*3600+minute*60+second-offset)
	if second == 60 {
		if !beginsMonth(seconds) {
			return 0, false
		}
		fraction = 0
	}
	return seconds*1e6 + int64(fraction), true
}

// beginsMonth reports whether a month begins at a second of Unix time.
func beginsMonth(seconds int64) bool {
	at := time.Unix(seconds, 0).UTC()
	return at.Day() == 1 && at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0
}

// maxTimeBytes bounds a timestamp: 32 is the longest sensible one with nanoseconds, twice that is generous.
const maxTimeBytes = 64

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

type timeParser struct {
	text string
	at   int
	ok   bool
}

// next consumes the next byte when it is one of set.
func (p *timeParser) next(set string) bool {
	if !p.ok || p.at >= len(p.text) {
		return false
	}
	for i := range len(set) {
		if p.text[p.at] == set[i] {
			p.at++
			return true
		}
	}
	return false
}

func (p *timeParser) expect(set string) { p.ok = p.next(set) && p.ok }

func (p *timeParser) number(digits int) (n int) {
	for range digits {
		if !p.ok || p.at >= len(p.text) || p.text[p.at]-'0' > 9 {
			p.ok = false
			return 0
		}
		n = n*10 + int(p.text[p.at]-'0')
		p.at++
	}
	return n
}

// fraction reads the digits of a fraction as microseconds.
func (p *timeParser) fraction() (micros int) {
	micros = p.number(1)
	digits := 1
	for p.ok && p.at < len(p.text) && p.text[p.at]-'0' <= 9 {
		if digits < 6 {
			micros = micros*10 + int(p.text[p.at]-'0')
			digits++
		}
		p.at++
	}
	for ; digits < 6; digits++ {
		micros *= 10
	}
	return micros
}

// zone reads Z, +hh:mm, +hhmm or +hh and returns the offset in seconds; nothing is UTC.
func (p *timeParser) zone() (seconds int) {
	if !p.ok || p.at == len(p.text) || p.next("Zz") {
		return 0
	}
	sign := 1
	if p.next("-") {
		sign = -1
	} else {
		p.expect("+")
	}
	hours := p.number(2)
	minutes := 0
	if p.at < len(p.text) {
		p.next(":")
		minutes = p.number(2)
	}
	if hours > 23 || minutes > 59 {
		p.ok = false
	}
	return sign * (hours*3600 + minutes*60)
}

// AppendTimeMs appends Unix microseconds as an RFC 3339 timestamp in UTC with milliseconds and without quotes, such as
// 2026-10-05T09:00:00.123Z. Years beyond 9999 are written as the end of 9999.
func AppendTimeMs(dst []byte, micros uint64) []byte {
	dst, micros = appendSeconds(dst, micros)
	return append(append(dst, '.'), digit(micros/100_000), digit(micros/10_000), digit(micros/1000), 'Z')
}

// AppendTimeMicros is AppendTimeMs with microseconds.
func AppendTimeMicros(dst []byte, micros uint64) []byte {
	dst, micros = appendSeconds(dst, micros)
	return append(append(dst, '.'), digit(micros/100_000), digit(micros/10_000), digit(micros/1000), digit(micros/100),
		digit(micros/10), digit(micros), 'Z')
}

func digit(n uint64) byte { return '0' + byte(n%10) }

// maxMicros is the last microsecond of the year 9999, the last year that RFC 3339 can write.
const maxMicros = 253_402_300_799_999_999

// appendSeconds appends date and time up to the second and returns the microseconds within it.
func appendSeconds(dst []byte, micros uint64) ([]byte, uint64) {
	micros = min(micros, maxMicros)
	seconds := micros / 1_000_000
	year, month, day := civil(seconds / 86_400)
	second := seconds % 86_400
	hour, minute := second/3600, second/60%60
	second %= 60
	dst = append(dst, digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(month/10), digit(month), '-', digit(day/10), digit(day), 'T',
		digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(second/10), digit(second))
	return dst, micros % 1_000_000
}

// civil turns days since 1970-01-01 into a date of the Gregorian calendar. Years are counted from March, so that the leap
// day is the last of its year; 400 years have 146,097 days.
func civil(days uint64) (year, month, day uint64) {
	days += 719_468 // days from 0000-03-01 to 1970-01-01
	era := days / 146_097
	ofEra := days % 146_097
	yearOfEra := (ofEra - ofEra/1460 + ofEra/36_524 - ofEra/146_096) / 365
	ofYear := ofEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*ofYear + 2) / 153
	day = ofYear - (153*shifted+2)/5 + 1
	month = shifted + 3
	if month > 12 {
		month -= 12
	}
	year = era*400 + yearOfEra
	if month <= 2 {
		year++
	}
	return year, month, day
}
