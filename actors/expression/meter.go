package expression

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// ErrBudget is the error of an evaluation that took too many steps, too much memory or too long.
var ErrBudget = errors.New("the expression is too expensive")

const (
	// maxSteps bounds the steps of one evaluation. A step takes some 50 to 100 ns.
	maxSteps = 1_000_000
	// maxMemory bounds the bytes that one evaluation may allocate, in all.
	maxMemory = 16 << 20
	// maxTime bounds an evaluation that shares its core, or whose steps are slow.
	maxTime = 100 * time.Millisecond
	// lookEvery is after how many steps the clock and the context are checked.
	lookEvery = 2000
	// maxNesting bounds the depth of the lists and maps that an operation traverses.
	maxNesting = 200
	// bytesPerStep is how much text is read or copied in the time of a step.
	bytesPerStep = 64
)

// meter is the remaining budget of an evaluation. The first refusal ends it: an error of a function ends the program.
type meter struct {
	steps, memory int
	unseen        int // steps since the last check
	until         time.Time
	stopped       func() error
}

func newMeter(ctx context.Context) *meter {
	return &meter{steps: maxSteps, memory: maxMemory, until: time.Now().Add(maxTime), stopped: ctx.Err}
}

// spend pays for steps before they are done.
func (m *meter) spend(steps int) error {
	if steps > m.steps || steps < 0 {
		return fmt.Errorf("%w: more than %d steps", ErrBudget, maxSteps)
	}
	m.steps -= steps
	if m.unseen += steps; m.unseen < lookEvery {
		return nil
	}
	m.unseen = 0
	if err := m.stopped(); err != nil {
		return err
	}
	if time.Now().After(m.until) {
		return fmt.Errorf("%w: it took longer than %v", ErrBudget, maxTime)
	}
	return nil
}

// read pays for reading, or copying, bytes.
func (m *meter) read(bytes int) error { return m.spend(1 + bytes/bytesPerStep) }

// grow pays for bytes before they are allocated and written.
func (m *meter) grow(bytes int) error {
	if bytes > m.memory || bytes < 0 {
		return fmt.Errorf("%w: more than %d bytes of memory", ErrBudget, maxMemory)
	}
	m.memory -= bytes
	return m.read(bytes)
}

// product multiplies two numbers that an attacker may have chosen; an overflow becomes more than any budget.
func product(a, b int) int {
	const tooMuch = 1 << 40
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > tooMuch/b {
		return tooMuch
	}
	return a * b
}

// weight is the size of a value, as a tree.
type weight struct {
	nodes, bytes, depth int
}

func (w *weight) add(part weight) {
	w.nodes += part.nodes
	w.bytes += part.bytes
	w.depth = max(w.depth, part.depth+1)
}

const (
	elementBytes = 16 // an element of a list
	entryBytes   = 96 // an entry of a map
)

// weigh measures a value and pays for the measuring. A value that occurs several times counts each time.
func (m *meter) weigh(value any) (weight, error) { return m.weighAt(value, 0) }

func (m *meter) weighAt(value any, depth int) (weight, error) {
	if depth > maxNesting {
		return weight{}, fmt.Errorf("%w: values nested deeper than %d", ErrBudget, maxNesting)
	}
	if err := m.spend(1); err != nil {
		return weight{}, err
	}
	whole := weight{nodes: 1, bytes: elementBytes}
	switch v := value.(type) {
	case nil, bool, int, float64:
		return whole, nil
	case string:
		whole.bytes += len(v)
		return whole, nil
	case []byte:
		whole.bytes += len(v)
		return whole, nil
	case []any:
		for _, element := range v {
			part, err := m.weighAt(element, depth+1)
			if err != nil {
				return weight{}, err
			}
			whole.add(part)
		}
		return whole, nil
	case map[string]any:
		for key, element := range v {
			part, err := m.weighAt(element, depth+1)
			if err != nil {
				return weight{}, err
			}
			part.bytes += len(key) + entryBytes
			whole.add(part)
		}
		return whole, nil
	}
	return m.weighOther(reflect.ValueOf(value), whole, depth)
}

// weighOther measures the other values of the language: ranges, parts of texts, groups, pairs, times.
func (m *meter) weighOther(v reflect.Value, whole weight, depth int) (weight, error) {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			part, err := m.weighAt(v.Index(i).Interface(), depth+1)
			if err != nil {
				return weight{}, err
			}
			whole.add(part)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			for _, of := range []reflect.Value{entries.Key(), entries.Value()} {
				part, err := m.weighAt(of.Interface(), depth+1)
				if err != nil {
					return weight{}, err
				}
				whole.add(part)
			}
			whole.bytes += entryBytes
		}
	case reflect.String:
		whole.bytes += v.Len()
	default:
		whole.bytes += 4 * elementBytes
	}
	return whole, nil
}

// length returns the length of a text or list, the size of a map, and 0 for anything else.
func length(value any) int {
	switch v := value.(type) {
	case nil, bool, int, float64:
		return 0
	case string:
		return len(v)
	case []any:
		return len(v)
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len()
	default:
		return 0
	}
}
