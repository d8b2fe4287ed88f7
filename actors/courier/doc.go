// Package courier makes the attempts of webhook deliveries (package webhook). Each endpoint that has something to do has one courier,
// on the node that owns it, which reads what is due, sends it, reports what came of it and writes what that says about the endpoint
// into its record.
//
// Invariants:
//
//   - A courier is the only one who changes deliveries that are pending. A report that is not stored, or perhaps is, is given again,
//     ever more slowly, and nothing is sent before it is taken. One that is refused for good has it forget all that it holds.
//   - It holds at most maxHeld deliveries, whatever waits: what was just accepted is handed to it, and beyond that it reads rows.
//   - Deliveries about the same thing are sent one after another; others side by side, as far as there are places.
//   - Places are a node's (WEBHOOK_CONCURRENCY), and tenants share them, see deliver.Lanes: none has so many that another one waits for
//     what it holds. No endpoint has more than half of them, one that is slow or has not answered yet has one, and all slow ones
//     together have at most half: the others never wait for them. Tests count among those.
//   - Before each attempt the record is read as it is then. One that is gone takes its deliveries with it; those of one that is
//     disabled fail. While the record cannot be read no attempt is made, and none counts.
package courier
