package endpoint

import "strings"

// Users of the Client API are records of the directory, and their ids are made here: usr_ and ownIDLen characters, or firstUser.
const (
	ownPrefix    = "usr_"
	ownIDLen     = 21
	firstUser    = "usr_default"
	outsiderMark = "ext:"
)

// OutsideUser is the id of a user whom something else than the directory names: the subject of a token, an answer of the
// operator's application, a claim of the request. Conversations are shared by all surfaces and know their owner by the id alone,
// so nobody from outside gets an id that a user of the directory may have: such a one is marked, and so is one that looks
// marked, so that no two of them become one. All others stay as they are.
func OutsideUser(id string) string {
	bare := id
	for strings.HasPrefix(bare, outsiderMark) {
		bare = bare[len(outsiderMark):]
	}
	if bare == firstUser || strings.HasPrefix(bare, ownPrefix) && len(bare) == len(ownPrefix)+ownIDLen {
		return outsiderMark + id
	}
	return id
}
