package failure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/core/failure"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

func snake() *failure.Wording {
	return &failure.Wording{
		Conversation: "session",
		Spell: func(name string) string {
			return strings.NewReplacer("fileId", "file_id", "maxFiles", "max_files").Replace(name)
		},
		Own: func(reason failure.Reason) string {
			if reason == "test" {
				return "{{a} {text:q} of {maxFiles}: {field} and {.maxFiles} of the {conversation} {nothing}"
			}
			return ""
		},
	}
}

func TestWording(t *testing.T) {
	f := failure.New(failurepb.Code_VALIDATION, "test").In("fileId").Param("text", `{field} "x"`).With("maxFiles", 3.0)
	require.Equal(t, `{a} "{field} \"x\"" of 3: file_id and max_files of the session `, snake().Text(f))
	require.Equal(t, map[string]any{"max_files": 3.0}, snake().Details(f))
	require.Equal(t, map[string]any{"maxFiles": 3.0}, (*failure.Wording)(nil).Details(f))
	require.Equal(t, "test", f.DefaultText(), "a reason of a newer node")
	changed := failure.New(failurepb.Code_UNAVAILABLE, failure.ConversationChanged)
	require.Equal(t, "the session changed meanwhile", snake().Text(changed))
	require.Equal(t, "UNAVAILABLE: the conversation changed meanwhile", changed.Error())
	require.Equal(t, "input[3]: the session changed meanwhile", snake().Text(changed.At("input[3]")))
	require.Equal(t, "a: b: the conversation changed meanwhile", changed.At("b").At("a").DefaultText())
	require.Equal(t, failurepb.Code_CONFLICT, changed.WithCode(failurepb.Code_CONFLICT).Code)
}

// TestFailureIsAnError: it is found in what wraps it, and its details are what the client is shown.
func TestFailureIsAnError(t *testing.T) {
	busy := failure.New(failurepb.Code_CONVERSATION_BUSY, failure.TurnRunning).With("activeRunId", "run_1").With("since", 5)
	require.Equal(t, "CONVERSATION_BUSY: a turn is running", busy.Error())
	require.JSONEq(t, `{"activeRunId":"run_1","since":5}`, string(mustJSON(t, busy.Details)))
	var found *failure.Failure
	require.ErrorAs(t, fmt.Errorf("ask owner: %w", busy), &found)
	require.Same(t, busy, found)
	require.NotErrorAs(t, errors.New("broken"), &found)
	require.Nil(t, failure.Verbatim(failurepb.Code_NOT_FOUND, "100% gone").Details)
}

// TestCapital: a name that begins a sentence gets a capital.
func TestCapital(t *testing.T) {
	words := &failure.Wording{Own: func(failure.Reason) string { return "{noun:c} {key:q} {none:c}not found" }}
	missing := failure.New(failurepb.Code_NOT_FOUND, failure.RecordMissing).Param("noun", "agent version").Param("key", "k")
	require.Equal(t, `Agent version "k" not found`, words.Text(missing))
}

// TestVerbatim: what is in a text, a file's name for example, is never taken for a template or for a name of ours.
func TestVerbatim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[{}.a-z:]*`)).Draw(t, "text")
		f := failure.Verbatim(failurepb.Code_VALIDATION, text)
		require.Equal(t, text, snake().Text(f))
		require.Equal(t, text, f.DefaultText())
	})
}

// TestAcrossNodes: a failure is worded alike wherever it was made, in both of the messages that carry it.
func TestAcrossNodes(t *testing.T) {
	for _, f := range []*failure.Failure{
		failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound),
		failure.New(failurepb.Code_UNAVAILABLE, failure.ConversationChanged).In("fileId").
			Param("name", "the conversation fileId.txt").Param("most", 7).With("maxFiles", 3).With("ids", []string{"a"}),
		failure.Verbatim(failurepb.Code_FORBIDDEN, "not you").With("maxFiles", 2),
	} {
		e, err := f.Encode()
		require.NoError(t, err)
		require.Equal(t, f.DefaultText(), e.Message)
		fault := &nodepb.Fault{Code: e.Code, Message: e.Message, Details: e.Details, Reason: e.Reason, Field: e.Field, Params: e.Params}
		refused := &conversationpb.Refused{}
		encoded, err := proto.Marshal(fault)
		require.NoError(t, err)
		require.NoError(t, proto.Unmarshal(encoded, refused), "they have the same fields")
		for _, m := range []failure.Message{fault, refused} {
			got, err := failure.Decode(m)
			require.NoError(t, err)
			require.Equal(t, f.Reason, got.Reason)
			require.Equal(t, f.Field, got.Field)
			require.Equal(t, f.Params, got.Params)
			require.Equal(t, snake().Text(f), snake().Text(got))
			require.JSONEq(t, string(mustJSON(t, f.Details)), string(mustJSON(t, got.Details)))
		}
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
	return encoded
}

// TestFormerRelease: what a node of the release before sends holds words only.
func TestFormerRelease(t *testing.T) {
	got, err := failure.Decode(&conversationpb.Refused{
		Code: failurepb.Code_TOO_MANY_FILES, Message: "{a} the conversation has 3 files already", Details: []byte(`{"maxFiles":3}`),
	})
	require.NoError(t, err)
	require.Equal(t, failure.Literal, got.Reason)
	require.Equal(t, "{a} the conversation has 3 files already", snake().Text(got))
	require.Equal(t, map[string]any{"max_files": 3.0}, snake().Details(got))

	got, err = failure.Decode(&nodepb.Fault{Code: failurepb.Code_UNAVAILABLE, Message: "the conversation changed meanwhile"})
	require.NoError(t, err)
	require.Equal(t, failure.ConversationChanged, got.Reason)

	got, err = failure.Decode(&nodepb.Fault{Code: failurepb.Code_VALIDATION, Message: "of a newer node", Reason: "nobody_knows", Field: "x"})
	require.NoError(t, err)
	require.Equal(t, "of a newer node", snake().Text(got))

	got, err = failure.Decode(&nodepb.Fault{Code: failurepb.Code_VALIDATION, Message: "words", Details: []byte(`[1]`)})
	require.Error(t, err)
	require.Equal(t, "words", got.DefaultText())
}

func TestDetailsThatDoNotMarshal(t *testing.T) {
	_, err := failure.New(failurepb.Code_INTERNAL, failure.ConversationChanged).With("f", func() {}).Encode()
	require.ErrorContains(t, err, "details")
}
