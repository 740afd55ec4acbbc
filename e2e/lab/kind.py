def up(name):
    raise NotImplementedError


def down(name):
    raise NotImplementedError
