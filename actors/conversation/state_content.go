package conversation

import (
	"slices"

	"parley/proto/conversationpb"
)

// messageChanged: the message's row has another rating now. Of two ratings at once the later one stands, whatever either
// had read, so a rating does not count as rewriting.
func messageChanged(next *conversationpb.State, message *conversationpb.Message) {
	if message.GetId() == next.GetLastAnswer().GetId() {
		answered(next, message)
	}
}

// truncated removes messages from the end. Their numbers are used again: a number is a place.
func truncated(next *conversationpb.State, event *conversationpb.Event, cut *conversationpb.Truncated) {
	next.Rewritten = event.GetSeq()
	next.NextMessage = cut.GetFrom()
	next.MessageCount -= min(cut.GetRemoved(), next.GetMessageCount())
	if next.GetLastAnswer().GetNumber() >= cut.GetFrom() {
		next.LastAnswer = nil
	}
}

func fileAdded(next *conversationpb.State, file *conversationpb.File) {
	next.Files = append(slices.Clip(slices.Clone(next.GetFiles())), file)
}

func filesRemoved(next *conversationpb.State, ids []string) {
	next.Files = slices.DeleteFunc(slices.Clone(next.GetFiles()), func(file *conversationpb.File) bool {
		return slices.Contains(ids, file.GetId())
	})
	if len(next.GetFiles()) == 0 {
		next.Files = nil
	}
}
