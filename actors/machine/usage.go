package machine

import (
	"strings"

	"parley/proto/logpb"
)

// Usage is rolled up by hour in rows of numbers (logpb.Sum): a row's name says whose project it is, its member the hour
// and what the usage is put down to, and its numbers stand in this order.
const (
	UsageRequests    = iota // model calls
	UsageErrors             // turns, or calls of the gateway, that ended in an error; each has a request in its row
	UsageInputTokens        // cached ones included
	UsageOutputTokens
	UsageCachedInputTokens
	UsageCostNanoUSD
	UsageUnpriced // requests of which the cost is not known, or a lower bound
	UsageColumns  // how many there are
)

// UsageNumbers are what one row is raised by, none of them negative.
type UsageNumbers [UsageColumns]int64

// UsageKey is what usage is put down to. Any part may be empty: not known, or none.
type UsageKey struct {
	Model   string // key of the model record, or the name of a model that has none
	User    string // who asked for it
	Token   string // id of the API token that it was asked for with
	Service string // of the Client API, e.g. agents
	Agent   string // id
}

// UsagePrefix is how the names of all rows begin.
const UsagePrefix = "usage/"

// UsageName is the name of a project's rows.
func UsageName(tenantID, projectID string) string {
	return UsagePrefix + ListPart(tenantID) + "/" + ListPart(projectID)
}

const (
	usageHour     = 3_600_000 // ms
	lastUsageHour = 9_999_999_999
	// usageParts are the hour and those of a UsageKey.
	usageParts = 6
)

// UsageHour is how the members of the hour in which a time (Unix ms) lies begin, and a bound of ranges of members: those
// from UsageHour(a) until below UsageHour(b) are of the hours of a up to, without it, b.
func UsageHour(unixMS int64) string {
	hour := min(max(0, unixMS)/usageHour, lastUsageHour)
	var digits [len("9999999999")]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + hour%10)
		hour /= 10
	}
	return string(digits[:])
}

// UsageMember is the member of the row for usage at a time (Unix ms). It is at most 255 bytes.
func UsageMember(unixMS int64, key UsageKey) string {
	hour := UsageHour(unixMS)
	var b strings.Builder
	b.Grow(len(hour) + len(key.Model) + len(key.User) + len(key.Token) + len(key.Service) + len(key.Agent) + usageParts)
	b.WriteString(hour)
	for _, part := range [...]string{key.Model, key.User, key.Token, key.Service, key.Agent} {
		b.WriteByte('/')
		b.WriteString(ListPart(part))
	}
	return b.String()
}

// ParseUsageMember reads a member: the hour's beginning (Unix ms) and what it was put down to. A part that was too long
// for a member comes as its hash: "~" and what follows. It is false for what is no member.
func ParseUsageMember(member string) (unixMS int64, key UsageKey, ok bool) {
	parts := strings.Split(member, "/")
	if len(parts) != usageParts || len(parts[0]) != len("0000000000") {
		return 0, UsageKey{}, false
	}
	var hour int64
	for _, digit := range []byte(parts[0]) {
		if digit < '0' || digit > '9' {
			return 0, UsageKey{}, false
		}
		hour = hour*10 + int64(digit-'0')
	}
	unescape := strings.NewReplacer("%25", "%", "%2F", "/", "%7E", "~")
	for i, part := range parts {
		parts[i] = unescape.Replace(part)
	}
	return hour * usageHour, UsageKey{Model: parts[1], User: parts[2], Token: parts[3], Service: parts[4], Agent: parts[5]}, true
}

// UsageSum raises the row of a project, a time (Unix ms) and a key; nil when there is nothing to raise it by.
func UsageSum(tenantID, projectID string, unixMS int64, key UsageKey, numbers UsageNumbers) *logpb.Sum {
	last := UsageColumns
	for last > 0 && numbers[last-1] <= 0 {
		last--
	}
	if last == 0 {
		return nil
	}
	deltas := make([]int64, last)
	for i := range deltas {
		deltas[i] = max(0, numbers[i])
	}
	return &logpb.Sum{Name: UsageName(tenantID, projectID), Member: UsageMember(unixMS, key), Deltas: deltas}
}
