package audit

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/core/letters"
)

// shown says that the trail shows the values of a field of records. Of all others, those that will be added as well, it says only that
// they are there: what is secret may be in any of them.
func shown(field string) bool {
	switch field {
	case "id", "tenant_id", "project_id", "user_id", "agent_id", "group_id", "owner_id", "key", "name", "slug", "tier", "role",
		"email", "label", "status", "category", "driver", "provider_key", "model_id", "version", "published_version",
		"latest_version", "can_login", "project_ids", "user_ids", "member_ids", "group_ids", "service_permissions", "tenant_role",
		"scoped", "scope", "events", "disabled_reason", "generation", "multimodal", "supports_tools", "archived", "created_by",
		"updated_by", "published_by", "invited_by", "created_at", "updated_at", "expires_at", "accepted_at", "archived_at",
		"license_id", "license_type", "must_change":
		return true
	}
	return false
}

// unshown are collections that say nothing of what a person changed.
func unshown(collection string) bool {
	switch collection {
	case "guards", "token_uses", "request_counts", "access_codes":
		return true
	}
	return false
}

const (
	hiddenValue = "[hidden]"
	maxText     = 512 // bytes of a text that is shown
	maxList     = 50
	maxDepth    = 4
)

// show is what the trail shows of a record: a JSON object, empty for nil.
func show(record proto.Message) string {
	if record == nil || !record.ProtoReflect().IsValid() {
		return ""
	}
	text := canonical(visible(record.ProtoReflect(), maxDepth))
	if len(text) > maxShown {
		return `{"truncated":true}`
	}
	return string(text)
}

func visible(message protoreflect.Message, depth int) map[string]any {
	all := make(map[string]any)
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		switch {
		case field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap() && depth > 0:
			all[name] = visible(value.Message(), depth-1)
		case !shown(name):
			all[name] = hiddenValue
		default:
			all[name] = plain(field, value)
		}
		return true
	})
	return all
}

func plain(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch {
	case field.IsMap():
		all := make(map[string]any)
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			if len(all) < maxList {
				all[clip(key.String())] = scalar(field.MapValue(), value)
			}
			return true
		})
		return all
	case field.IsList():
		all := make([]any, 0, min(value.List().Len(), maxList))
		for i := range min(value.List().Len(), maxList) {
			all = append(all, scalar(field, value.List().Get(i)))
		}
		return all
	}
	return scalar(field, value)
}

// scalar is a value as JSON has it. Bytes and messages are hidden: they have no form of their own here.
func scalar(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.StringKind:
		return clip(value.String())
	case protoreflect.BoolKind:
		return value.Bool()
	case protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.FloatKind, protoreflect.DoubleKind:
		return hiddenValue
	default:
		return value.Interface()
	}
}

// clip bounds a text and drops what is no text.
func clip(text string) string { return Text(text, maxText) }

// Text is at most so many bytes of a text that came from outside, in valid UTF-8.
func Text(text string, most int) string {
	return strings.ToValidUTF8(letters.Head(text, most), "?")
}

// tenantOf is the tenant that a record belongs to; empty when it has none.
func tenantOf(record, id string, versions ...proto.Message) string {
	if record == "tenants" {
		return id
	}
	return textOf("tenant_id", versions...)
}

// idOf is a record's own id, else its key. The keys of some records are hashes of secrets.
func idOf(key string, versions ...proto.Message) string {
	if id := textOf("id", versions...); id != "" {
		return id
	}
	return key
}

func textOf(name protoreflect.Name, versions ...proto.Message) string {
	for _, message := range versions {
		if message == nil || !message.ProtoReflect().IsValid() {
			continue
		}
		field := message.ProtoReflect().Descriptor().Fields().ByName(name)
		if field != nil && field.Kind() == protoreflect.StringKind && !field.IsList() {
			return message.ProtoReflect().Get(field).String()
		}
	}
	return ""
}
