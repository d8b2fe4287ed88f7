package analytics

import (
	"strings"
	"time"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Time is counted in UTC, in which all hours and days are equally long, in Unix milliseconds.
const (
	hour = int64(3_600_000)
	day  = 24 * hour
)

// spanInput is the time that is asked for.
type spanInput struct {
	From string `query:"from" doc:"ISO 8601 date or date-time, inclusive; UTC where it has no offset"`
	To   string `query:"to" doc:"The same; a date includes its whole day"`

	span span
}

// span is from start on to before end, in Unix milliseconds; a bound that was not given has nil.
type span struct{ from, to *int64 }

// read parses the bounds.
func (in *spanInput) read() *failure.Failure {
	for _, bound := range []struct {
		name, text string
		into       **int64
		last       bool
	}{{"from", in.From, &in.span.from, false}, {"to", in.To, &in.span.to, true}} {
		if bound.text == "" {
			continue
		}
		at, ok := instant(bound.text, bound.last)
		if !ok {
			return failure.New(failurepb.Code_INVALID_REQUEST, failure.NotISODate).Param("name", bound.name)
		}
		*bound.into = &at
	}
	return nil
}

// instant is a time as a bound: of a date, the first or the last millisecond of its day.
func instant(text string, last bool) (unixMS int64, ok bool) {
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		if last {
			return at.UnixMilli() + day - 1, true
		}
		return at.UnixMilli(), true
	}
	text = strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UnixMilli(), true
		}
	}
	return 0, false
}

// within is the span in whole units, as rows of usage are read: start inclusive, end exclusive and 0 when it is open. Usage counts
// with its hour or day where that is partly in the span. A span that ends before 1970 or before it starts is empty.
func (s span) within(unit int64) (start, end int64, empty bool) {
	if s.from != nil {
		start = floor(max(*s.from, 0), unit)
	}
	if s.to != nil {
		if *s.to < 0 || s.from != nil && *s.to < *s.from {
			return 0, 0, true
		}
		end = floor(*s.to, unit) + unit
	}
	return start, end, false
}

func floor(at, unit int64) int64 { return at - at%unit }

// exact is the span to the millisecond: start inclusive, end exclusive and latest when it is open.
func (s span) exact(latest int64) (start, end int64) {
	end = latest
	if s.from != nil {
		start = max(*s.from, 0)
	}
	if s.to != nil {
		end = min(max(*s.to, -1)+1, latest)
	}
	return start, max(start, end)
}
