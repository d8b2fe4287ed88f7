package machine

import (
	"strings"

	"parley/proto/logpb"
)

// Usage is aggregated by hour in rows of numbers (logpb.Sum). A row's name is the project, its member the hour and what the
// usage is attributed to. Its numbers have this order.
const (
	UsageRequests    = iota // model calls
	UsageErrors             // turns, or calls of the gateway, that ended in an error; each has a request in its row
	UsageInputTokens        // cached ones included
	UsageOutputTokens
	UsageCachedInputTokens
	UsageCostNanoUSD
	UsageUnpriced    // requests whose cost is unknown or a lower bound
	UsageAudioMillis // of sound that was heard or spoken
	UsageCharacters  // of text that was spoken
	UsageCacheHits   // requests that were answered with an answer that was kept
	// Of a dynamic model: calls of the models that it chose, and of its decider, and what they cost. They have rows of their own besides.
	UsageRouted
	UsageRoutedCostNanoUSD
	UsageColumns // number of columns
)

// UsageNumbers are added to one row; none is negative.
type UsageNumbers [UsageColumns]int64

// UsageKey is what usage is attributed to. Any part may be empty: unknown, or none.
type UsageKey struct {
	Model   string // key of the model record, or the name of a model that has none
	User    string // who asked for it
	Token   string // id of the API token that it was asked for with
	Service string // of the Client API, e.g. agents
	Agent   string // id
}

// UsagePrefix is the prefix of the names of all usage rows.
const UsagePrefix = "usage/"

// UsageName is the name of a project's rows.
func UsageName(tenantID, projectID string) string {
	return UsagePrefix + ListPart(tenantID) + "/" + ListPart(projectID)
}

const (
	// UsageHead is how many bytes at the beginning of a member tell the hour.
	UsageHead = len("0000000000")

	usageHour     = 3_600_000 // ms
	usageDay      = 24 * usageHour
	lastUsageHour = 9_999_999_999
	// usageParts are the hour and those of a UsageKey.
	usageParts = 6
)

// UsageHour is the prefix of the members of the hour that contains a time (Unix ms). It also bounds ranges: members from
// UsageHour(a) inclusive to UsageHour(b) exclusive belong to the hours from a's to before b's.
func UsageHour(unixMS int64) string {
	hour := min(max(0, unixMS)/usageHour, lastUsageHour)
	var digits [UsageHead]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + hour%10)
		hour /= 10
	}
	return string(digits[:])
}

// UsageDay is UsageHour of the beginning of the UTC day that contains a time (Unix ms).
func UsageDay(unixMS int64) string { return UsageHour(max(0, unixMS) / usageDay * usageDay) }

// UsageDayOf bounds the members of the day of a member. They are empty for a string that is not a member.
func UsageDayOf(member string) (from, to string) {
	unixMS, ok := parseHour(member[:min(UsageHead, len(member))])
	if !ok {
		return "", ""
	}
	return UsageDay(unixMS), UsageDay(unixMS + usageDay)
}

// UsageHoursOf is the hours of a day behind the first, which is given as UsageHour.
func UsageHoursOf(day string) []string {
	unixMS, _ := parseHour(day) // 0 of what is none
	hours := make([]string, usageDay/usageHour-1)
	for i := range hours {
		hours[i] = UsageHour(unixMS + int64(i+1)*usageHour)
	}
	return hours
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

// ParseUsageMember parses a member into the start of its hour (Unix ms) and its key. A part that was too long for a member
// is returned as its hash, with the prefix "~". It returns false for a string that is not a member.
func ParseUsageMember(member string) (unixMS int64, key UsageKey, ok bool) {
	parts := strings.Split(member, "/")
	if len(parts) != usageParts {
		return 0, UsageKey{}, false
	}
	if unixMS, ok = parseHour(parts[0]); !ok {
		return 0, UsageKey{}, false
	}
	unescape := strings.NewReplacer("%25", "%", "%2F", "/", "%7E", "~")
	for i, part := range parts {
		parts[i] = unescape.Replace(part)
	}
	return unixMS, UsageKey{Model: parts[1], User: parts[2], Token: parts[3], Service: parts[4], Agent: parts[5]}, true
}

// parseHour is the start (Unix ms) of the hour that UsageHour has written.
func parseHour[T string | []byte](text T) (unixMS int64, ok bool) {
	if len(text) != UsageHead {
		return 0, false
	}
	for i := range UsageHead {
		digit := text[i]
		if digit < '0' || digit > '9' {
			return 0, false
		}
		unixMS = unixMS*10 + int64(digit-'0')
	}
	return unixMS * usageHour, true
}

// UsageSum adds numbers to the row of a project, a time (Unix ms) and a key. It returns nil if all numbers are 0.
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
