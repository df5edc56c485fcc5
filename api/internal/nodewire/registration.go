package nodewire

import (
	"fmt"
	"math"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// FromRegistration spells a registration.
func FromRegistration(r session.Registration) *weirv1.RegisterRequest {
	return &weirv1.RegisterRequest{
		Cluster: r.Cluster, Node: string(r.Node), Address: r.Address, LeaseMs: r.LeaseMS, ClockClass: uint32(r.ClockClass),
		Protocol: r.Protocol, BootId: r.BootID, LockDevice: r.LockDevice, LockInode: r.LockInode,
		HighestGeneration: uint64(r.HighestGeneration),
	}
}

// ToRegisterNode reads the command of a registration.
func ToRegisterNode(r *weirv1.RegisterRequest) (*fsm.RegisterNode, error) {
	if r.GetClockClass() > math.MaxUint8 {
		return nil, fmt.Errorf("clock class %d is not known", r.GetClockClass())
	}
	return &fsm.RegisterNode{
		Node: fsm.NodeName(r.GetNode()), Address: r.GetAddress(), LeaseMS: r.GetLeaseMs(), ClockClass: uint8(r.GetClockClass()),
		Protocol: r.GetProtocol(), BootID: r.GetBootId(), LockDevice: r.GetLockDevice(), LockInode: r.GetLockInode(),
	}, nil
}

// ToRegistered reads the answer to a registration.
func ToRegistered(r *weirv1.RegisterResponse) session.Registered {
	return session.Registered{
		Cluster: r.GetCluster(), Incarnation: fsm.Incarnation(r.GetIncarnation()), LeaseMS: r.GetLeaseMs(),
		Index: r.GetHeader().GetIndex(), Term: r.GetHeader().GetTerm(), TickMS: r.GetTickMs(), HeartbeatMS: r.GetHeartbeatMs(),
	}
}

// FromGoodbye spells a goodbye.
func FromGoodbye(node fsm.NodeName, inc fsm.Incarnation, stopped []fsm.PlacementPosition) *weirv1.GoodbyeRequest {
	return &weirv1.GoodbyeRequest{Node: string(node), Incarnation: uint64(inc), Stopped: every(stopped, FromStopped)}
}

// ToGoodbye reads the command of a goodbye.
func ToGoodbye(r *weirv1.GoodbyeRequest) (*fsm.Goodbye, error) {
	stopped, err := each(r.GetStopped(), ToStopped)
	return &fsm.Goodbye{
		Node: fsm.NodeName(r.GetNode()), Incarnation: fsm.Incarnation(r.GetIncarnation()), Stopped: stopped,
	}, err
}
