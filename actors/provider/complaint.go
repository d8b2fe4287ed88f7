package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"html"
	"io"
	"regexp"
	"strconv"
	"strings"

	"parley/actors/machine/rawjson"
)

const (
	// maxComplaints bounds how many errors of a list are repeated, maxNestedWords how deep their words are looked for.
	maxComplaints, maxNestedWords = 8, 6
)

// Complains says whether an object tells of a failure; own, that it has a form of its protocol, in which other words mean nothing.
func Complains(fields rawjson.Fields, own bool) bool {
	if isTold(fields.Get("error")) || fields.Text("object") == "error" || fields.Text("type") == "error" {
		return true
	}
	for _, name := range []string{"error_message", "error_msg", "error_code", "message", "msg", "detail", "errors"} {
		if !own && isTold(fields.Get(name)) {
			return true
		}
	}
	return false
}

// isTold says whether a field of an error is one: some are always there.
func isTold(raw []byte) bool {
	switch string(raw) {
	case "", "null", `""`, "[]", "{}", "false":
		return false
	}
	return true
}

// Complaint reads what a provider says about a failure, in the forms of all known providers: {"error":{message,type,code,param}},
// {"error":"..."}, {"detail"} as a text or as a list of what is not valid, {"message"}, {"msg"}, {"errors"}, a list of any of these, an event
// with one, a page, or plain text. The status is 0 for an error in an answer.
func Complaint(status int, document []byte, secrets Redactor) *Failure {
	f := &Failure{Status: status, InStream: status == 0}
	var message string
	if raw := jsonOf(document); raw == nil {
		message = wordsOfPage(document)
	} else {
		message = words(raw, 0)
		outer := objectOf(raw)
		inner := objectOf(outer.Get("error"))
		if inner.Get("message") == nil && inner.Get("type") == nil && inner.Get("code") == nil {
			inner = outer
			for _, name := range []string{"detail", "errors"} {
				if nested := objectOf(outer.Get(name)); nested != nil && outer.Get("type") == nil && outer.Get("code") == nil {
					inner = nested
				}
			}
		}
		f.Kind, f.Code = cmp.Or(inner.Text("type"), inner.Text("status")), cmp.Or(inner.Text("code"), inner.Text("error_code"))
		f.Param = cmp.Or(inner.Text("param"), paramOf(inner.Get("loc")))
		if number, err := strconv.Atoi(string(inner.Get("code"))); err == nil && status == 0 && number >= 400 && number < 600 {
			f.Status = number
		}
		if f.Status == 0 {
			f.Status = statusOf(strings.ToLower(f.Kind + " " + f.Code))
		}
	}
	f.Class = f.classify(message)
	f.Message = secrets.Clean(message, maxWords)
	return f
}

// jsonOf is the JSON of a document, or of the first event that it holds; nil = there is none.
func jsonOf(document []byte) []byte {
	if json.Valid(document) {
		return bytes.TrimSpace(document)
	}
	event, err := NewEvents(bytes.NewReader(document)).Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return event
}

// objectOf is an object, or the first of a list of them; nil = neither.
func objectOf(raw []byte) rawjson.Fields {
	if items, err := rawjson.Array(raw, maxErrorBody); err == nil && len(items) > 0 {
		raw = items[0]
	}
	fields, err := rawjson.Object(raw)
	if err != nil {
		return nil
	}
	return fields
}

// words are what is said of a failure, wherever it is said: several of them, of a list.
func words(raw []byte, nested int) string {
	if rawjson.IsNull(raw) || nested > maxNestedWords {
		return ""
	}
	switch raw[0] {
	case '"':
		return rawjson.Text(raw).String()
	case '[':
		items, _ := rawjson.Array(raw, maxErrorBody) // that many do not fit into what is read
		var all []string
		for _, item := range items[:min(len(items), maxComplaints)] {
			if said := words(item, nested+1); said != "" {
				all = append(all, said)
			}
		}
		return strings.Join(all, "; ")
	case '{':
		fields, _ := rawjson.Object(raw) // none, if it has too many
		for _, name := range []string{"message", "error", "detail", "error_message", "error_msg", "msg", "errors", "error_description", "description", "title"} {
			if said := words(fields.Get(name), nested+1); said != "" {
				return prefixed(paramOf(fields.Get("loc")), said)
			}
		}
		if nested > 0 && len(fields) > 0 && fields[0].Value[0] == '[' { // of each field what is wrong with it
			return prefixed(fields[0].Name, words(fields[0].Value, nested+1))
		}
	}
	return ""
}

func prefixed(name, said string) string {
	if name == "" || said == "" {
		return said
	}
	return name + ": " + said
}

// paramOf is the path of a value that is not valid, without the part of the request that it is in.
func paramOf(loc []byte) string {
	items, _ := rawjson.Array(loc, maxErrorBody) // none, if it is no list
	var path []string
	for i, item := range items {
		if step := strings.Trim(string(item), `"`); i > 0 || step != "body" {
			path = append(path, step)
		}
	}
	return strings.Join(path, ".")
}

var (
	unseenPattern = regexp.MustCompile(`(?is)<(script|style|head)\b.*?</(script|style|head)\s*>|<!--.*?-->`)
	titlePattern  = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title`)
	tagPattern    = regexp.MustCompile(`(?s)<[a-zA-Z/!?][^>]*(>|$)`)
)

// wordsOfPage are the words of a page, or of plain text; "" for what is no text.
func wordsOfPage(page []byte) string {
	if bytes.ContainsFunc(page, func(c rune) bool { return c < ' ' && !strings.ContainsRune("\t\n\v\f\r\x1b", c) }) {
		return ""
	}
	text := string(page)
	if trimmed := strings.TrimSpace(text); !strings.HasPrefix(trimmed, "<") {
		return trimmed
	}
	seen := html.UnescapeString(tagPattern.ReplaceAllString(unseenPattern.ReplaceAllString(text, " "), " "))
	if title := titlePattern.FindStringSubmatch(text); title != nil && strings.TrimSpace(seen) == "" {
		return html.UnescapeString(title[1])
	}
	return strings.Join(strings.Fields(seen), " ")
}
