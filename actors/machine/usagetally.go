package machine

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"
)

// UsagePart is the part of a UsageKey by which usage is added up.
type UsagePart uint8

// The parts, in their order in a member.
const (
	UsageByModel UsagePart = iota + 1
	UsageByUser
	UsageByToken
	UsageByService
	UsageByAgent
)

// UsageInterval is how long a period is.
type UsageInterval uint8

// Periods begin at full hours, days and months of UTC.
const (
	UsageWhole UsageInterval = iota // no periods
	UsageHourly
	UsageDaily
	UsageMonthly
)

const (
	// MaxUsageParts bounds the rows of a tally: what further users or tokens use counts as nobody's, so the sum stays whole.
	MaxUsageParts = 16_384
	// MaxUsagePeriods bounds its periods: the newest are kept.
	MaxUsagePeriods = 16_384
)

// UsageTally adds up rows of usage by a part and by period.
type UsageTally struct {
	part     UsagePart
	interval UsageInterval
	only     UsagePart // unless 0, only rows with value there count
	value    string    // as in a member

	rows    map[string]*UsageNumbers
	periods map[int64]*UsageNumbers

	// The same keys and hours come again and again, often in the same order.
	keys     map[string]*usageKey
	last     *usageKey
	lastHour []byte // empty = there was none
	lastAt   int64
	period   *UsageNumbers // of the last hour; nil = none of it has counted
}

// usageKey is a key that a tally remembers.
type usageKey struct {
	key  string
	row  *UsageNumbers // where its usage is added; nil = it does not count
	next *usageKey     // which came behind it the last time
}

// UsageTotal is the usage of one part, or of the period that begins at Start (Unix ms).
type UsageTotal struct {
	Part    string // as in a member: ListPart of the id or key
	Start   int64
	Numbers UsageNumbers
}

// NewUsageTally returns an empty tally. Only rows that have value at the part only count; with 0 all do.
func NewUsageTally(part UsagePart, interval UsageInterval, only UsagePart, value string) *UsageTally {
	return &UsageTally{
		part: part, interval: interval, only: only, value: ListPart(value),
		rows: map[string]*UsageNumbers{}, periods: map[int64]*UsageNumbers{}, keys: map[string]*usageKey{}, last: &usageKey{},
	}
}

// Add adds a row, of the hour and the key of a member. One that is not of this form is ignored.
func (t *UsageTally) Add(hour, key []byte, numbers []int64) {
	if !t.turnTo(hour) {
		return
	}
	if row := t.rowOf(key); row != nil {
		row.add(numbers)
		t.addNow(numbers)
	}
}

// AddTail adds what the rows of a key come to in a day, or an hour, that begins at from. It tells whether AddHead shall have them by hour.
func (t *UsageTally) AddTail(from, key []byte, numbers []int64) (heads bool) {
	if t.interval != UsageHourly {
		t.Add(from, key, numbers)
		return false
	}
	row := t.rowOf(key)
	if row != nil {
		row.add(numbers)
	}
	return row != nil
}

// AddHead adds what rows of an hour come to that AddTail has had.
func (t *UsageTally) AddHead(hour []byte, numbers []int64) {
	if t.turnTo(hour) {
		t.addNow(numbers)
	}
}

// maxUsageKeys bounds the keys that a tally remembers: it has the rows of more from their parts each time.
const maxUsageKeys = 16_384

// rowOf is where usage of a key is added; nil = it does not count.
func (t *UsageTally) rowOf(key []byte) *UsageNumbers {
	next := t.last.next
	if next == nil || string(key) != next.key {
		if next = t.keys[string(key)]; next == nil {
			next = &usageKey{key: string(key), row: t.newRowOf(key)}
			if len(t.keys) == maxUsageKeys {
				return next.row
			}
			t.keys[next.key] = next
		}
		t.last.next = next
	}
	t.last = next
	return next.row
}

func (t *UsageTally) newRowOf(key []byte) *UsageNumbers {
	if len(key) > 0 && key[0] == '/' && bytes.Count(key, []byte{'/'}) == usageParts-1 &&
		(t.only == 0 || string(memberPart(key, t.only)) == t.value) {
		return t.row(memberPart(key, t.part))
	}
	return nil
}

// memberPart is one part of a key of the right form.
func memberPart(member []byte, part UsagePart) []byte {
	for range part {
		member = member[bytes.IndexByte(member, '/')+1:]
	}
	if end := bytes.IndexByte(member, '/'); end >= 0 {
		return member[:end]
	}
	return member
}

// turnTo makes an hour the last one. It returns false for what is none.
func (t *UsageTally) turnTo(hour []byte) bool {
	if len(hour) > 0 && bytes.Equal(hour, t.lastHour) {
		return true
	}
	at, ok := parseHour(hour)
	if ok {
		t.lastHour, t.lastAt, t.period = append(t.lastHour[:0], hour...), at, nil
	}
	return ok
}

// addNow adds to the period of the last hour.
func (t *UsageTally) addNow(numbers []int64) {
	if t.interval == UsageWhole {
		return
	}
	if t.period == nil {
		t.period = t.at(t.interval.Start(t.lastAt))
	}
	t.period.add(numbers)
}

func (t *UsageTally) row(part []byte) *UsageNumbers {
	row := t.rows[string(part)]
	if row == nil && len(t.rows) >= MaxUsageParts {
		part = nil
		row = t.rows[""]
	}
	if row == nil {
		row = &UsageNumbers{}
		t.rows[string(part)] = row
	}
	return row
}

func (t *UsageTally) at(start int64) *UsageNumbers {
	period := t.periods[start]
	if period == nil {
		period = &UsageNumbers{}
		t.periods[start] = period
	}
	return period
}

// Merge adds what another tally of the same kind has found.
func (t *UsageTally) Merge(rows, periods []UsageTotal) {
	for i := range rows {
		t.row([]byte(rows[i].Part)).add(rows[i].Numbers[:])
	}
	for i := range periods {
		t.at(periods[i].Start).add(periods[i].Numbers[:])
	}
}

// Totals returns the sums by part, in their order, and by period, oldest first. The sum of all rows is that of all that was added.
func (t *UsageTally) Totals() (rows, periods []UsageTotal) {
	for part, numbers := range t.rows {
		rows = append(rows, UsageTotal{Part: part, Numbers: *numbers})
	}
	slices.SortFunc(rows, func(a, b UsageTotal) int { return strings.Compare(a.Part, b.Part) })
	for start, numbers := range t.periods {
		periods = append(periods, UsageTotal{Start: start, Numbers: *numbers})
	}
	slices.SortFunc(periods, func(a, b UsageTotal) int { return int(max(-1, min(1, a.Start-b.Start))) })
	return rows, periods[max(0, len(periods)-MaxUsagePeriods):]
}

func (n *UsageNumbers) add(numbers []int64) {
	for i := range min(len(numbers), len(n)) {
		if n[i] > math.MaxInt64-max(0, numbers[i]) {
			n[i] = math.MaxInt64
			continue
		}
		n[i] += max(0, numbers[i])
	}
}

// Start is the beginning of the period that contains a time (Unix ms).
func (i UsageInterval) Start(unixMS int64) int64 {
	switch i {
	case UsageHourly:
		return unixMS - unixMS%usageHour
	case UsageDaily:
		return unixMS - unixMS%usageDay
	case UsageMonthly:
		at := time.UnixMilli(unixMS).UTC()
		return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	default:
		return 0
	}
}

// SumUsage is the sum of totals.
func SumUsage(of []UsageTotal) UsageNumbers {
	var sum UsageNumbers
	for i := range of {
		sum.add(of[i].Numbers[:])
	}
	return sum
}

// PartText is what ListPart was given, unless that was so long that it was hashed.
func PartText(part string) string {
	return strings.NewReplacer("%25", "%", "%2F", "/", "%7E", "~").Replace(part)
}
