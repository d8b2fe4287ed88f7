package conversation_test

import (
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/conversation"
	"parley/actors/machine/machinetest"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// contentCommands are the commands about what was said, files and titles.
func (w *walk) contentCommands() []func(c *conversationpb.Command) {
	return []func(c *conversationpb.Command){
		func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_Regenerate{Regenerate: w.regenerate()}
		},
		func(c *conversationpb.Command) { c.Body = &conversationpb.Command_Edit{Edit: w.edit()} },
		func(c *conversationpb.Command) { c.Body = &conversationpb.Command_Rate{Rate: w.rate()} },
		func(c *conversationpb.Command) { c.Body = &conversationpb.Command_AddFile{AddFile: w.addFile()} },
		func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_RemoveFile{RemoveFile: &conversationpb.RemoveFile{FileId: w.fileID()}}
		},
		func(c *conversationpb.Command) {
			c.Body = &conversationpb.Command_SetTitle{SetTitle: &conversationpb.SetTitle{
				RunId: rapid.SampledFrom([]string{"run_1", "run_2", w.state().GetLastRunId()}).Draw(w.t, "titled run"),
				Title: rapid.SampledFrom([]string{"", "a title", "\xff much longer than twenty characters"}).Draw(w.t, "made title"),
				Usage: w.titleUsage(),
			}}
		},
	}
}

// titleUsage is of a model call that nobody meters: a runner makes it only where the budget can bear it.
func (w *walk) titleUsage() *conversationpb.Usage {
	usage := &conversationpb.Usage{Priced: rapid.Bool().Draw(w.t, "title priced")}
	if w.state().GetBudget() == nil {
		usage.CostNanoUsd = rapid.Int64Range(-1, 5).Draw(w.t, "title cost")
	}
	return usage
}

// read is a message as somebody has read it, now or some time ago; at times it is nonsense.
func (w *walk) read(number uint64) *conversationpb.Target {
	now := &conversationpb.Target{
		AsOf:    w.state().GetLastSeq(),
		Message: w.rows()[number],
	}
	w.reads = append(w.reads, now)
	w.reads = w.reads[max(0, len(w.reads)-6):]
	if rapid.IntRange(0, 3).Draw(w.t, "read before") == 2 {
		return rapid.SampledFrom(w.reads).Draw(w.t, "read")
	}
	return now
}

func (w *walk) someNumber() uint64 {
	return rapid.Uint64Range(0, w.state().GetNextMessage()).Draw(w.t, "number")
}

func (w *walk) experience(allowed *agentpb.Experience) *agentpb.Agent {
	if rapid.IntRange(0, 9).Draw(w.t, "switched off") == 7 {
		allowed = &agentpb.Experience{}
	}
	return w.whole(&agentpb.Agent{Id: "a/1", Model: &agentpb.Model{Price: &agentpb.Price{}}, Experience: allowed})
}

func (w *walk) regenerate() *conversationpb.Regenerate {
	number := w.state().GetNextMessage() - 1
	if rapid.IntRange(0, 7).Draw(w.t, "any target") == 5 {
		number = w.someNumber()
	}
	target := w.read(number)
	return &conversationpb.Regenerate{
		Target:      target,
		UserMessage: w.rows()[w.state().GetLastUserMessage()],
		Agent:       w.experience(&agentpb.Experience{Regenerate: true}),
		Metadata:    rapid.SampledFrom([][]byte{nil, nil, []byte(`{"m":1}`), []byte(`[`)}).Draw(w.t, "new metadata"),
		Wait:        rapid.Bool().Draw(w.t, "wait"),
	}
}

func (w *walk) edit() *conversationpb.Edit {
	edit := &conversationpb.Edit{
		Target:   w.read(w.someNumber()),
		Content:  rapid.SampledFrom([]string{"other", "words", "again", ""}).Draw(w.t, "new content"),
		Agent:    w.experience(&agentpb.Experience{Edit: true}),
		SetFiles: rapid.Bool().Draw(w.t, "set files"),
		Wait:     rapid.Bool().Draw(w.t, "wait"),
	}
	if rapid.Bool().Draw(w.t, "with files") {
		edit.FileIds = []string{w.fileID()}
	}
	return edit
}

func (w *walk) rate() *conversationpb.Rate {
	return &conversationpb.Rate{
		Target:  w.read(w.someNumber()),
		Rating:  rapid.SampledFrom([]string{"up", "down", "", "down", "x"}).Draw(w.t, "rating"),
		Reasons: rapid.SampledFrom([][]string{nil, nil, {"other"}, {"unheard of"}}).Draw(w.t, "reasons"),
		Comment: rapid.SampledFrom([]string{"", "", "fine", "\xff"}).Draw(w.t, "comment"),
		Agent:   w.experience(&agentpb.Experience{FeedbackEnabled: true, FeedbackComments: true}),
	}
}

func (w *walk) fileID() string {
	return rapid.SampledFrom([]string{"file_1", "file_2", "file_3", "file_4", "file_5"}).Draw(w.t, "file")
}

func (w *walk) addFile() *conversationpb.AddFile {
	return &conversationpb.AddFile{
		File: &conversationpb.File{
			Id: w.fileID(), Name: "a file", Size: rapid.Int64Range(-1, 1<<20).Draw(w.t, "size"),
			MimeType: rapid.SampledFrom([]string{"text/plain", "image/png", "video/mp4"}).Draw(w.t, "type"),
		},
		Agent: w.whole(&agentpb.Agent{Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{
			Enabled: rapid.IntRange(0, 9).Draw(w.t, "no files") != 7, MaxFiles: 3, AllowedMimeTypes: []string{"text/*", "image/png"},
			RetentionDays: rapid.Int32Range(0, 1).Draw(w.t, "retention"),
		}}}),
	}
}

// rows are the stored messages by number.
func (w *walk) rows() map[uint64]*conversationpb.Message {
	rows := map[uint64]*conversationpb.Message{}
	for item, value := range w.entity.Rows.Items {
		if item.Table != conversation.TableMessages {
			continue
		}
		message := new(conversationpb.Message)
		require.NoError(w.t, proto.Unmarshal([]byte(value), message))
		require.Equal(w.t, string(conversation.MessageKey(message.GetNumber())), item.Key)
		rows[message.GetNumber()] = message
	}
	return rows
}

// checkContent: the messages are 1, 2, 3, ..., each answer behind the message it answers. The bytes of files are there
// exactly while the files are.
func (w *walk) checkContent() {
	s, rows := w.state(), w.rows()
	require.Equal(w.t, s.GetNextMessage()-1, s.GetMessageCount())
	require.Len(w.t, rows, int(s.GetMessageCount()))
	for number := uint64(1); number < s.GetNextMessage(); number++ {
		message := rows[number]
		require.NotNil(w.t, message, "message %d", number)
		require.LessOrEqual(w.t, len(message.GetPreviousContent()), 5)
		require.Equal(w.t, message.GetEdited(), message.GetEditedFrom() != "")
		if message.GetRole() == conversationpb.Role_ASSISTANT {
			if message.GetRegeneratedFrom() != "" {
				w.seen["regenerated, "+message.GetStatus()]++
			}
			require.False(w.t, message.GetEdited())
			if message.GetRunId() == "" { // said elsewhere
				w.seen["imported"]++
				continue
			}
			require.Equal(w.t, rows[number-1].GetId(), message.GetInReplyTo())
			require.Equal(w.t, conversationpb.Role_USER, rows[number-1].GetRole())
			continue
		}
		require.Nil(w.t, message.GetFeedback())
		require.Empty(w.t, message.GetRegeneratedFrom())
		require.LessOrEqual(w.t, number, s.GetLastUserMessage())
	}
	if last := s.GetLastAnswer(); last != nil {
		require.Equal(w.t, last.GetId(), rows[last.GetNumber()].GetId())
		require.Equal(w.t, last.GetStatus(), rows[last.GetNumber()].GetStatus())
	}
	require.LessOrEqual(w.t, len(s.GetFiles()), 6, "three, and some that are due") // a file that expired takes no place
	blobs := map[string]machinetest.Blob{}
	for _, file := range s.GetFiles() {
		record, err := proto.Marshal(file)
		require.NoError(w.t, err)
		blobs[file.GetId()] = machinetest.Blob{Owner: s.GetId(), Size: file.GetSize(), Record: string(record)}
	}
	require.Equal(w.t, blobs, w.entity.Rows.Blobs)
}
