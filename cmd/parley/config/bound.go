package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// boundChecker checks values against the range and one_of tags of their fields.
type boundChecker struct {
	*checker
	byKey map[string]reflect.Value // of the whole configuration: an end of a range may be another setting
}

// checkBounds checks all settings but the agents, which are checked where their records are made. The settings of the
// cluster count only where there is one.
func (c *Config) checkBounds(k *checker) {
	b := c.bounds(k)
	root := reflect.ValueOf(c).Elem()
	for _, f := range fieldsOf(root.Type()) {
		if f.key != "agents" && (f.key != "cluster" || c.Cluster.Enabled()) {
			b.check(root.Field(f.index), f, f.key)
		}
	}
}

// checkItem checks a list item (an Agent), whose settings have names that begin with key.
func (c *Config) checkItem(k *checker, key string, item any) {
	c.bounds(k).check(reflect.ValueOf(item), field{}, key)
}

func (c *Config) bounds(k *checker) *boundChecker {
	b := &boundChecker{checker: k, byKey: map[string]reflect.Value{}}
	for _, s := range settings(c) {
		b.byKey[s.key] = s.value
	}
	return b
}

func (b *boundChecker) check(value reflect.Value, f field, key string) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			b.check(value.Elem(), f, key)
		}
	case reflect.Struct:
		for _, member := range fieldsOf(value.Type()) {
			b.check(value.Field(member.index), member, join(key, member.key))
		}
	case reflect.Slice:
		for i := range value.Len() {
			b.check(value.Index(i), f, fmt.Sprintf("%s[%d]", key, i))
		}
	case reflect.String:
		if f.oneOf != "" {
			b.word(value.String(), f.oneOf, key)
		}
	default:
		if f.low != "" {
			b.within(value, f, key)
		}
	}
}

// word checks a value against a list of words. A list that begins with an empty word permits the value to be absent.
func (b *boundChecker) word(text, list, key string) {
	words := strings.Split(list, ",")
	if words[0] == "" && text == "" {
		return
	}
	b.oneOf(key, text, slices.DeleteFunc(words, func(word string) bool { return word == "" })...)
}

func (b *boundChecker) within(value reflect.Value, f field, key string) {
	low, high := b.end(f.low, value.Type()), b.end(f.high, value.Type())
	if less(value, low) || less(high, value) {
		b.failf(key, "%s is not between %s and %s", formatScalar(value), formatScalar(low), formatScalar(high))
	}
}

// end is one end of a range: the value of the setting of that name, or else a literal.
func (b *boundChecker) end(text string, t reflect.Type) reflect.Value {
	if value, ok := b.byKey[text]; ok {
		return value
	}
	value := reflect.New(t).Elem()
	if err := parseScalar(value, text); err != nil {
		b.failf(text, "%w", err) // a mistake in the declaration, found by the tests
	}
	return value
}

func less(a, b reflect.Value) bool {
	if a.CanFloat() {
		return a.Float() < b.Float()
	}
	return a.Int() < b.Int()
}
