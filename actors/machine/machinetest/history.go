package machinetest

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// history is a journal as some release wrote it, and the state it stood for.
type history struct {
	Events []json.RawMessage `json:"events"`
	State  json.RawMessage   `json:"state"`
	// Since names fields that the state has had only since, and that are not compared.
	Since []protoreflect.Name `json:"since,omitempty"`
}

// Replay checks that every recorded history of a directory still folds to the state it was recorded with: what a
// release stored means the same for ever. A file that fails here is right; the rules are wrong.
func (s Suite) Replay(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no recorded histories in %s", dir)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			var recorded history
			require.NoError(t, json.Unmarshal(raw, &recorded))
			var state proto.Message
			for _, raw := range recorded.Events {
				event := s.Event()
				require.NoError(t, protojson.Unmarshal(raw, event))
				state = s.Machine.Evolve(state, []proto.Message{event})
			}
			want := s.Machine.NewState()
			require.NoError(t, protojson.Unmarshal(recorded.State, want))
			for _, field := range recorded.Since {
				known := state.ProtoReflect().Descriptor().Fields().ByName(field)
				require.NotNil(t, known, field)
				state.ProtoReflect().Clear(known)
			}
			require.Equal(t, Text(want), Text(state))
		})
	}
}

// record keeps the entity's journal as a history, once, and only when scripts are rewritten: a recorded one is never
// written again.
func (s Suite) record(t *testing.T, file string, entity *Entity) {
	t.Helper()
	_, err := os.Stat(file)
	rewrite := flag.Lookup("rewrite")
	if err == nil || rewrite == nil || rewrite.Value.String() != "true" {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, fs.ErrNotExist)
	var recorded history
	for _, event := range entity.Journal {
		recorded.Events = append(recorded.Events, encodeJSON(t, event))
	}
	recorded.State = encodeJSON(t, entity.State)
	raw, err := json.MarshalIndent(recorded, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, append(raw, '\n'), 0o644)) //nolint:gosec // test data of the repository
}

func encodeJSON(t *testing.T, message proto.Message) json.RawMessage {
	t.Helper()
	raw, err := protojson.Marshal(message)
	require.NoError(t, err)
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, raw))
	return compact.Bytes()
}
