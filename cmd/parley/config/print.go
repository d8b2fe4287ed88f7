package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Print writes the configuration as a commented config file with the same settings. Secrets are redacted; the
// placeholder is refused when the file is loaded, so it cannot be taken for a secret.
func (c *Config) Print(w io.Writer) error {
	p := &printer{docs: fieldDocs()}
	p.section(reflect.ValueOf(c).Elem(), "")
	_, err := w.Write(p.out.Bytes())
	return err
}

type printer struct {
	out  bytes.Buffer
	docs map[string]string
}

func (p *printer) section(value reflect.Value, indent string) {
	for _, f := range fieldsOf(value.Type()) {
		member := value.Field(f.index)
		if indent == "" {
			p.out.WriteByte('\n')
		}
		if member.Kind() == reflect.Struct {
			writeWrapped(&p.out, indent+"# ", p.docs[member.Type().Name()])
			fmt.Fprintf(&p.out, "%s%s:\n", indent, f.key)
			p.section(member, indent+"  ")
			continue
		}
		writeWrapped(&p.out, indent+"# ", setting{field: f, value: member}.doc())
		if isStructList(member.Type()) {
			p.itemDocs(member.Type().Elem(), indent+"#   ")
		}
		p.pair(f.key, member, indent)
	}
}

// itemDocs describes the fields of list items, which are printed without comments of their own.
func (p *printer) itemDocs(item reflect.Type, prefix string) {
	for _, f := range fieldsOf(item) {
		writeWrapped(&p.out, prefix, f.key+": "+f.comment())
		member := item.Field(f.index).Type
		if member.Kind() == reflect.Pointer || isStructList(member) {
			member = member.Elem()
		}
		if member.Kind() == reflect.Struct {
			p.itemDocs(member, prefix+"  ")
		}
	}
}

func isStructList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// pair writes one key with its value. Inside list items, zero values are omitted.
func (p *printer) pair(key string, value reflect.Value, indent string) {
	fmt.Fprintf(&p.out, "%s%s:", indent, key)
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.Struct:
		p.out.WriteByte('\n')
		p.item(value, indent+"  ", indent+"  ")
	case reflect.Map:
		p.out.WriteString(" " + formatObject(value.Interface()) + "\n")
	case reflect.Slice:
		p.list(value, indent)
	default:
		p.out.WriteString(" " + formatScalar(value) + "\n")
	}
}

func (p *printer) list(value reflect.Value, indent string) {
	if value.Len() == 0 {
		p.out.WriteString(" []\n")
		return
	}
	if isStructList(value.Type()) {
		p.out.WriteByte('\n')
		for i := range value.Len() {
			p.item(value.Index(i), indent+"  - ", indent+"    ")
		}
		return
	}
	words := make([]string, value.Len())
	for i := range words {
		words[i] = formatScalar(value.Index(i))
	}
	p.out.WriteString(" [" + strings.Join(words, ", ") + "]\n")
}

// item writes the fields of a struct that are set; first begins the first line, rest the others.
func (p *printer) item(value reflect.Value, first, rest string) {
	empty := true
	for _, f := range fieldsOf(value.Type()) {
		member := value.Field(f.index)
		if member.IsZero() {
			continue
		}
		if empty && first != rest {
			p.out.WriteString(first)
			p.pairAfterDash(f.key, member, rest)
		} else {
			p.pair(f.key, member, rest)
		}
		empty = false
	}
	if empty {
		p.out.WriteString(first + "{}\n")
	}
}

// pairAfterDash writes a pair on the line that a dash began.
func (p *printer) pairAfterDash(key string, value reflect.Value, indent string) {
	start := p.out.Len()
	p.pair(key, value, indent)
	line := bytes.TrimPrefix(bytes.Clone(p.out.Bytes()[start:]), []byte(indent))
	p.out.Truncate(start)
	p.out.Write(line)
}

// formatObject writes an object in flow style; JSON is YAML.
func formatObject(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// writeWrapped writes text in lines of at most 110 columns, each with a prefix.
func writeWrapped(out *bytes.Buffer, prefix, text string) {
	const width = 110
	line := prefix
	for word := range strings.FieldsSeq(text) {
		if line != prefix && len(line)+1+len(word) > width {
			out.WriteString(line + "\n")
			line = prefix
		}
		if line != prefix {
			line += " "
		}
		line += word
	}
	if line != prefix {
		out.WriteString(line + "\n")
	}
}
