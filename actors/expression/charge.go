package expression

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"

	"github.com/expr-lang/expr/vm/runtime"
)

// charge pays for one call of a function before it is made. nil = the cost of its node is enough.
type charge func(m *meter, args []any) error

// closures are the functions with a closure, and the bytes that a round of each keeps.
func closures() map[string]int {
	return map[string]int{
		"all": 0, "any": 0, "count": 0, "find": 0, "findIndex": 0, "findLast": 0, "findLastIndex": 0, "none": 0, "one": 0, "sum": 0,
		"filter": 96, "groupBy": 256, "map": 96, "reduce": 32, "sortBy": 160,
	}
}

// charges are the functions that may be called, with their charges. A function in neither list is refused.
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

// methods are the methods of times and durations that may be called: their cost does not depend on the arguments.
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

// deep pays for functions that traverse all of their arguments and return something of about that size.
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

// get pays for its key, which is hashed: nested pairs are valid keys and can be large.
func get(m *meter, args []any) error {
	_, err := m.weigh(at(args, 1))
	return err
}

// fromJSON can produce large values from few bytes: [[],[]] takes 24 bytes and more for every three.
func fromJSON(m *meter, args []any) error {
	bytes := length(at(args, 0))
	if err := m.grow(product(32, bytes)); err != nil {
		return err
	}
	return m.spend(bytes)
}

// toJSON indents: each node is preceded by twice its depth of blanks. A byte may need six.
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

// replace may grow at each place where the old text can occur; an empty one occurs between any two characters.
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

// trim may search the set of bytes to remove for each byte.
func trim(m *meter, args []any) error {
	if err := m.spend(product(length(at(args, 0)), length(at(args, 1))) / bytesPerStep); err != nil {
		return err
	}
	return texts(m, args)
}

// search pays for searching a text in another, if both are long and similar.
func search(m *meter, args []any) error {
	return m.read(8 * (length(at(args, 0)) + length(at(args, 1))))
}

// comparisons returns how many comparisons sorting takes.
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

// uniq compares every element with all others that are kept.
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

// compare pays for comparing two whole operands.
func compare(m *meter, args []any) error {
	whole, err := m.weighAll(args)
	if err != nil {
		return err
	}
	return m.read(whole.bytes)
}

// order pays for < and the like, which only compare numbers and texts.
func order(m *meter, args []any) error {
	return m.read(min(length(at(args, 0)), length(at(args, 1))))
}

func equal(args ...any) (any, error) { return runtime.Equal(args[0], args[1]), nil }

func in(args ...any) (any, error) { return runtime.In(args[0], args[1]), nil }

// add concatenates two texts, or adds numbers and times.
func add(m *meter, args []any) error {
	left, isText := args[0].(string)
	right, areTexts := args[1].(string)
	if isText && areTexts {
		return m.grow(len(left) + len(right))
	}
	return nil
}

// span makes a range. A length that overflows is refused.
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

// scalar refuses lists and maps as keys or positions: the language would print them into an error.
func scalar(_ *meter, args []any) (any, error) {
	switch reflect.ValueOf(args[0]).Kind() {
	case reflect.Array, reflect.Func, reflect.Map, reflect.Slice, reflect.Struct:
		return nil, errors.New("a list or map is no key and no position")
	default:
		return args[0], nil
	}
}

// key pays for a value that is compared or hashed several times: the keys of sortBy and groupBy.
func key(m *meter, args []any) (any, error) {
	whole, err := m.weigh(args[0])
	if err != nil {
		return nil, err
	}
	const times = 24 // how often sorting a list within the budget compares each element
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
		return nil, nil // the result of a tick is not used
	}
	return nil, m.grow(bytes)
}
