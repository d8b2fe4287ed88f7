package expression

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"

	"github.com/expr-lang/expr/vm/runtime"
)

// charge pays for one call of a function before it is made. nil = the call costs what its node costs.
type charge func(m *meter, args []any) error

// closures are the functions with a closure, and the bytes that a round of each keeps.
func closures() map[string]int {
	return map[string]int{
		"all": 0, "any": 0, "count": 0, "find": 0, "findIndex": 0, "findLast": 0, "findLastIndex": 0, "none": 0, "one": 0, "sum": 0,
		"filter": 96, "groupBy": 256, "map": 96, "reduce": 32, "sortBy": 160,
	}
}

// charges are the functions that may be called, and what pays for each. What is in neither list is refused.
func charges() map[string]charge {
	list := map[string]charge{
		"date": date, "duration": texts, "float": texts, "fromBase64": texts, "fromJSON": fromJSON, "get": get, "hasPrefix": texts,
		"hasSuffix": texts, "indexOf": search, "int": texts, "join": join, "lastIndexOf": search, "len": texts, "lower": texts,
		"repeat": repeat, "replace": replace, "sort": sortList, "split": split, "splitAfter": split, "string": deep,
		"toBase64": texts, "toJSON": toJSON, "trim": trim, "trimPrefix": texts, "trimSuffix": texts, "uniq": uniq, "upper": texts,
	}
	for _, name := range []string{
		"abs", "bitand", "bitnand", "bitnot", "bitor", "bitshl", "bitshr", "bitushr", "bitxor", "ceil", "first", "floor", "last",
		"now", "round", "take", "type",
	} {
		list[name] = nil
	}
	for _, name := range []string{
		"concat", "flatten", "fromPairs", "keys", "max", "mean", "median", "min", "reverse", "toPairs", "values",
	} {
		list[name] = deep
	}
	return list
}

// methods may be called of times and durations: their work does not depend on what they are given.
func methods() []string {
	return []string{
		"Abs", "Add", "AddDate", "After", "Before", "Compare", "Day", "Equal", "Hour", "Hours", "IsZero", "Local", "Microseconds", "Milliseconds",
		"Minute", "Minutes", "Month", "Nanosecond", "Nanoseconds", "Round", "Second", "Seconds", "String", "Sub", "Truncate", "UTC", "Unix",
		"UnixMicro", "UnixMilli", "UnixNano", "Weekday", "Year", "YearDay",
	}
}

// texts pays for functions that read their texts once and return a text of about that length.
func texts(m *meter, args []any) error {
	bytes := 0
	for _, arg := range args {
		bytes += length(arg)
	}
	if bytes < bytesPerStep {
		return nil
	}
	return m.grow(4 * bytes)
}

// deep pays for functions that go into all of their arguments and return something of about that size.
func deep(m *meter, args []any) error {
	whole, err := m.weighAll(args)
	if err != nil {
		return err
	}
	return m.grow(3*whole.bytes + 24*whole.nodes)
}

func (m *meter) weighAll(args []any) (weight, error) {
	var whole weight
	for _, arg := range args {
		part, err := m.weigh(arg)
		if err != nil {
			return weight{}, err
		}
		whole.add(part)
	}
	return whole, nil
}

func date(m *meter, args []any) error {
	if len(args) > 2 {
		return errors.New("date() with a time zone is not possible in an expression")
	}
	return texts(m, args)
}

// get pays for its key, which is hashed: a pair of pairs of pairs is large, and a key.
func get(m *meter, args []any) error {
	_, err := m.weigh(at(args, 1))
	return err
}

// fromJSON makes much of few bytes: [[],[]] has 24 bytes and more for each three.
func fromJSON(m *meter, args []any) error {
	bytes := length(at(args, 0))
	if err := m.grow(product(32, bytes)); err != nil {
		return err
	}
	return m.spend(bytes)
}

// toJSON is indented: each node has twice its depth of blanks before it. A byte may need six.
func toJSON(m *meter, args []any) error {
	whole, err := m.weighAll(args)
	if err != nil {
		return err
	}
	return m.grow(2 * (6*whole.bytes + product(whole.nodes, 2*whole.depth+8)))
}

func at(args []any, index int) any {
	if index < len(args) {
		return args[index]
	}
	return nil
}

func repeat(m *meter, args []any) error {
	return m.grow(product(length(at(args, 0)), runtime.ToInt(at(args, 1))))
}

// replace grows as often as the old text can be there; an empty one is between any two letters.
func replace(m *meter, args []any) error {
	text, old, fresh := length(at(args, 0)), length(at(args, 1)), length(at(args, 2))
	most := text/max(old, 1) + 1
	if err := m.spend(most); err != nil {
		return err
	}
	return m.grow(text + product(most, fresh))
}

func split(m *meter, args []any) error {
	text, separator := length(at(args, 0)), length(at(args, 1))
	parts := text/max(separator, 1) + 1
	if err := m.spend(parts); err != nil {
		return err
	}
	return m.grow(parts * elementBytes)
}

func join(m *meter, args []any) error {
	whole, err := m.weigh(at(args, 0))
	if err != nil {
		return err
	}
	return m.grow(2*whole.bytes + product(whole.nodes, length(at(args, 1))))
}

// trim may look for each byte in the set of those to remove.
func trim(m *meter, args []any) error {
	if err := m.spend(product(length(at(args, 0)), length(at(args, 1))) / bytesPerStep); err != nil {
		return err
	}
	return texts(m, args)
}

// search pays for a text that is looked for in another, both long and alike.
func search(m *meter, args []any) error {
	return m.read(8 * (length(at(args, 0)) + length(at(args, 1))))
}

// comparisons is how often sorting so many elements compares two.
func comparisons(elements int) int { return elements * 2 * bits.Len(uint(max(elements, 0))) }

func sortList(m *meter, args []any) error {
	list := at(args, 0)
	whole, err := m.weigh(list)
	if err != nil {
		return err
	}
	if err = m.spend(comparisons(length(list)) + product(whole.bytes, bits.Len(uint(whole.nodes)))/bytesPerStep); err != nil {
		return err
	}
	return m.grow(2 * elementBytes * whole.nodes)
}

// uniq compares every element with every other that is left.
func uniq(m *meter, args []any) error {
	whole, err := m.weighAll(args)
	if err != nil {
		return err
	}
	elements := length(at(args, 0))
	if err = m.spend(product(elements, whole.nodes)/4 + product(elements, whole.bytes)/bytesPerStep/4); err != nil {
		return err
	}
	return m.grow(2 * elementBytes * whole.nodes)
}

// compare pays for what may compare all of its two operands.
func compare(m *meter, args []any) error {
	whole, err := m.weighAll(args)
	if err != nil {
		return err
	}
	return m.read(whole.bytes)
}

// order pays for < and its like, which compare numbers and texts only.
func order(m *meter, args []any) error {
	return m.read(min(length(at(args, 0)), length(at(args, 1))))
}

func equal(args ...any) (any, error) { return runtime.Equal(args[0], args[1]), nil }

func in(args ...any) (any, error) { return runtime.In(args[0], args[1]), nil }

// add puts two texts together, or adds numbers and times.
func add(m *meter, args []any) error {
	left, isText := args[0].(string)
	right, areTexts := args[1].(string)
	if isText && areTexts {
		return m.grow(len(left) + len(right))
	}
	return nil
}

// span makes a range. One that is too long to be counted is too long.
func span(m *meter, args []any) (any, error) {
	from, to := runtime.ToInt(args[0]), runtime.ToInt(args[1])
	if from > to {
		return []int{}, nil
	}
	size := to - from + 1
	if size <= 0 || size > maxMemory/8 {
		return nil, fmt.Errorf("%w: a range of more than %d numbers", ErrBudget, maxMemory/8)
	}
	if err := m.grow(8 * size); err != nil {
		return nil, err
	}
	return runtime.MakeRange(from, to), nil
}

// scalar lets a value pass that is no list and no map: as a key or a position the language would print it into an error.
func scalar(_ *meter, args []any) (any, error) {
	switch reflect.ValueOf(args[0]).Kind() {
	case reflect.Array, reflect.Func, reflect.Map, reflect.Slice, reflect.Struct:
		return nil, errors.New("a list or map is no key and no position")
	default:
		return args[0], nil
	}
}

// key pays for a value that is compared, or hashed, more often than once: what sortBy and groupBy go by.
func key(m *meter, args []any) (any, error) {
	whole, err := m.weigh(args[0])
	if err != nil {
		return nil, err
	}
	const times = 24 // sorting a list that the budget allows compares each element so often
	return args[0], m.spend(times + product(times, whole.bytes)/bytesPerStep)
}

// tick pays for one round of a closure: steps and bytes.
func tick(m *meter, args []any) (any, error) {
	steps, isInt := args[0].(int)
	bytes, areInts := args[1].(int)
	if !isInt || !areInts {
		return nil, errors.New("a tick without its price")
	}
	if err := m.spend(steps); err != nil {
		return nil, err
	}
	if bytes == 0 {
		return nil, nil // nobody looks at what a tick returns
	}
	return nil, m.grow(bytes)
}
