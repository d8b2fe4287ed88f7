package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// shape says what is wrong with a decoded JSON value.
type shape func(value any) error

// fields is the members of an object. A name that ends in "?" may be absent; a nil shape means that it must be.
type fields map[string]shape

func object(members fields) shape {
	return func(value any) error {
		found, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("not an object: %v", value)
		}
		for name, member := range members {
			plain := strings.TrimSuffix(name, "?")
			inside, there := found[plain]
			switch {
			case there && member == nil:
				return fmt.Errorf("%s must be absent", plain)
			case !there && member != nil && plain == name:
				return fmt.Errorf("%s is absent", plain)
			case !there:
				continue
			}
			if err := member(inside); err != nil {
				return fmt.Errorf("%s: %w", plain, err)
			}
		}
		for name := range found {
			if _, ok := members[name]; !ok && members[name+"?"] == nil {
				return fmt.Errorf("%s is not known", name)
			}
		}
		return nil
	}
}

// with returns members with others in their place.
func (f fields) with(others fields) fields {
	all := maps.Clone(f)
	for name, member := range others {
		plain := strings.TrimSuffix(name, "?")
		delete(all, plain)
		delete(all, plain+"?")
		all[name] = member
	}
	return all
}

func listOf(item shape) shape {
	return func(value any) error {
		items, ok := value.([]any)
		if !ok {
			return fmt.Errorf("not a list: %v", value)
		}
		for i, inside := range items {
			if err := item(inside); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	}
}

// exactly compares with what want looks like as JSON.
func exactly(want any) shape {
	return func(value any) error {
		wanted, err := json.Marshal(want)
		if err != nil {
			return err
		}
		found, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var a, b any // numbers by their value: 1e-9 is 0.000000001
		if err := errors.Join(json.Unmarshal(wanted, &a), json.Unmarshal(found, &b)); err != nil {
			return err
		}
		if !reflect.DeepEqual(a, b) {
			return fmt.Errorf("is %s, wanted %s", found, wanted)
		}
		return nil
	}
}

func like(pattern string) shape {
	return func(value any) error {
		text, ok := value.(string)
		if !ok || !regexp.MustCompile(pattern).MatchString(text) {
			return fmt.Errorf("is %#v, wanted text like %s", value, pattern)
		}
		return nil
	}
}

func oneOf(names ...string) shape {
	return func(value any) error {
		text, ok := value.(string)
		if !ok || !slices.Contains(names, text) {
			return fmt.Errorf("is %v, wanted one of %v", value, names)
		}
		return nil
	}
}

func either(shapes ...shape) shape {
	return func(value any) error {
		var err error
		for _, one := range shapes {
			if err = one(value); err == nil {
				return nil
			}
		}
		return err
	}
}

func nonEmpty(value any) error { return like(`(?s).`)(value) }

func anyText(value any) error { return like(``)(value) }

func anyObject(value any) error {
	if _, ok := value.(map[string]any); !ok {
		return fmt.Errorf("not an object: %v", value)
	}
	return nil
}

func boolean(value any) error {
	if _, ok := value.(bool); !ok {
		return fmt.Errorf("neither true nor false: %v", value)
	}
	return nil
}

func number(value any) error {
	if n, ok := value.(json.Number); !ok || strings.HasPrefix(n.String(), "-") {
		return fmt.Errorf("not a number from 0: %v", value)
	}
	return nil
}

func integer(value any) error {
	n, ok := value.(json.Number)
	if !ok {
		return fmt.Errorf("not a number: %v", value)
	}
	if i, err := n.Int64(); err != nil || i < 0 {
		return fmt.Errorf("not an integer from 0: %v", value)
	}
	return nil
}

// moment is ISO 8601 with milliseconds and Z, not in the future.
func moment(value any) error {
	if err := like(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)(value); err != nil {
		return err
	}
	text, _ := value.(string) // it matched
	at, err := time.Parse(time.RFC3339, text)
	if err == nil && (time.Until(at) > time.Second || time.Since(at) > time.Hour) {
		return fmt.Errorf("%s is not now", text)
	}
	return err
}

// epochMillis is a moment as a number.
func epochMillis(value any) error {
	n, ok := value.(json.Number)
	if !ok {
		return fmt.Errorf("not a number: %v", value)
	}
	millis, err := n.Int64()
	if at := time.UnixMilli(millis); err == nil && (time.Until(at) > time.Second || time.Since(at) > time.Hour) {
		return fmt.Errorf("%v is not now", value)
	}
	return err
}

func idOf(kind string) shape { return like(`^` + kind + `_[A-Za-z0-9_-]{21}$`) }

// The records of document 2, section A, each as wide as it may be.

func stopReason() shape {
	return oneOf("end_turn", "requires_action", "cancelled", "max_turns", "limit", "budget_reached", "error")
}

func budgetRecord() shape {
	return object(fields{"maxCostUsd": number, "onReach": oneOf("pause", "stop")})
}

func runtimeRecord(over fields) shape {
	return object(fields{
		"status": oneOf("idle", "running", "waiting"), "stopReason?": stopReason(), "lastEventSeq": integer,
		"pendingActionIds": exactly([]string{}),
	}.with(over))
}

func conversationRecord(over fields) shape {
	return object(fields{
		"id": idOf("conv"), "agentId": nonEmpty, "agentName": nonEmpty, "userId?": nonEmpty, "title?": like(`^.{1,200}$`),
		"metadata": anyObject, "state": exactly(map[string]any{}), "pinned": boolean,
		"budget": either(exactly(nil), budgetRecord()), "spentUsd": number,
		"runtime": runtimeRecord(nil), "continuable": exactly(false), "createdAt": moment, "updatedAt": moment,
	}.with(over))
}

func messageRecord(over fields) shape {
	return either(userMessage(over), assistantMessage(over))
}

func userMessage(over fields) shape {
	return object(fields{
		"id": idOf("msg"), "conversationId": idOf("conv"), "role": exactly("user"), "content": nonEmpty,
		"metadata": anyObject, "createdAt": moment, "updatedAt": moment,
	}.with(over))
}

func assistantMessage(over fields) shape {
	return object(fields{
		"id": idOf("msg"), "conversationId": idOf("conv"), "role": exactly("assistant"), "content": anyText,
		"status":    oneOf("completed", "cancelled", "incomplete"),
		"metadata":  object(fields{"status": oneOf("completed", "cancelled", "incomplete"), "stopReason": stopReason()}),
		"createdAt": moment, "updatedAt": moment,
	}.with(over))
}

func usageRecord(over fields) shape {
	return object(fields{
		"inputTokens": integer, "outputTokens": integer, "totalTokens": integer, "cachedInputTokens?": integer, "costUsd?": number,
	}.with(over))
}

// turnRecord is the result of a turn that simply completed.
func turnRecord(over fields) shape {
	return object(fields{
		"message": userMessage(nil), "response": assistantMessage(nil), "usage": usageRecord(fields{"costUsd": nil}),
		"stopReason": exactly("end_turn"), "runId": idOf("run"), "conversationTitle": anyText,
	}.with(over))
}

// unsaidMessage is the answer of a turn that left none: empty, and not stored.
func unsaidMessage(status, stopReason string) shape {
	return assistantMessage(fields{
		"content": exactly(""), "status": exactly(status), "metadata": exactly(object1{"status": status, "stopReason": stopReason}),
	})
}

func conversationPage(over fields) shape {
	return object(fields{
		"conversations": listOf(conversationRecord(nil)), "total": integer, "limit": integer, "offset": integer, "hasMore": boolean,
	}.with(over))
}

func messagePage(over fields) shape {
	return object(fields{
		"messages": listOf(messageRecord(nil)), "total": integer, "limit": integer, "offset": integer, "hasMore": boolean,
	}.with(over))
}

// conversationRead is the answer to reading a conversation; page is its messagesPage.
func conversationRead(page any) shape {
	return object(fields{
		"conversation": conversationRecord(nil), "messages": listOf(messageRecord(nil)), "messagesPage": exactly(page),
	})
}

type messagesPage struct {
	Limit         int    `json:"limit"`
	Order         string `json:"order"`
	HasMoreBefore bool   `json:"hasMoreBefore"`
	HasMoreAfter  bool   `json:"hasMoreAfter"`
}

func eventRecord(over fields) shape {
	return object(fields{
		"seq": integer, "type": nonEmpty, "data": anyObject, "run_id?": idOf("run"), "created_at": moment,
	}.with(over))
}

func eventsRecord(over fields) shape {
	return object(fields{"events": listOf(eventRecord(nil)), "hasMore": boolean, "lastSeq": integer}.with(over))
}
